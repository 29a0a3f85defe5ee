# docker build -f deploy/images/holder.Dockerfile -t paceline/holder --build-arg REVISION=$(git rev-parse --short HEAD) .
FROM debian:bookworm AS build
COPY . /src
RUN cd /src && scripts/build paceline-holder paceline-hdfs-mount paceline-snapshotter && \
    deploy/images/rootfs build/bin/paceline-holder build/bin/paceline-hdfs-mount build/bin/paceline-snapshotter /rootfs

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
COPY --from=build /rootfs /
# Mounts need root; what else it needs of the host is written in the chart.
USER 0:0
ENTRYPOINT ["/usr/bin/paceline-holder"]
LABEL org.opencontainers.image.title=paceline-holder org.opencontainers.image.version=$VERSION \
    org.opencontainers.image.revision=$REVISION org.opencontainers.image.licenses=Apache-2.0
