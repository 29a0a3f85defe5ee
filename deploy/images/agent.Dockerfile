# docker build -f deploy/images/agent.Dockerfile -t paceline/agent --build-arg REVISION=$(git rev-parse --short HEAD) .
FROM debian:bookworm AS build
COPY . /src
RUN cd /src && scripts/build paceline-agent paceline-deps paceline_tracer && \
    deploy/images/rootfs --plugin build/lib/libnccl-profiler-paceline.so build/bin/paceline-agent build/bin/paceline-deps \
      /rootfs

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
COPY --from=build /rootfs /
# With NVIDIA's container runtime this brings the driver's management library in; without it nothing happens.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=utility
# Mounts need root; what else it needs of the host is written in the chart.
USER 0:0
ENTRYPOINT ["/usr/bin/paceline-agent"]
LABEL org.opencontainers.image.title=paceline-agent org.opencontainers.image.version=$VERSION \
    org.opencontainers.image.revision=$REVISION org.opencontainers.image.licenses=Apache-2.0
