# docker build -f deploy/images/snapshotter.Dockerfile -t paceline/snapshotter --build-arg REVISION=$(git rev-parse --short HEAD) .
FROM debian:bookworm AS build
COPY . /src
RUN cd /src && scripts/build paceline-snapshotter && deploy/images/rootfs build/bin/paceline-snapshotter /rootfs

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
COPY --from=build /rootfs /
# Mounts need root; what else it needs of the host is written in the chart.
USER 0:0
ENTRYPOINT ["/usr/bin/paceline-snapshotter"]
LABEL org.opencontainers.image.title=paceline-snapshotter org.opencontainers.image.version=$VERSION \
    org.opencontainers.image.revision=$REVISION org.opencontainers.image.licenses=Apache-2.0
