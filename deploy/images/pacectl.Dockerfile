# docker build -f deploy/images/pacectl.Dockerfile -t paceline/pacectl --build-arg REVISION=$(git rev-parse --short HEAD) .
FROM debian:bookworm AS build
COPY . /src
RUN cd /src && scripts/build pacectl && deploy/images/rootfs build/bin/pacectl /rootfs

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
COPY --from=build /rootfs /
USER 65532:65532
ENTRYPOINT ["/usr/bin/pacectl"]
LABEL org.opencontainers.image.title=pacectl org.opencontainers.image.version=$VERSION \
    org.opencontainers.image.revision=$REVISION org.opencontainers.image.licenses=Apache-2.0
