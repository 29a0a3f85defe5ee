# docker build -f deploy/images/operator.Dockerfile -t paceline/operator --build-arg REVISION=$(git rev-parse --short HEAD) .
FROM debian:bookworm AS build
COPY . /src
RUN cd /src && scripts/build paceline-operator && deploy/images/rootfs build/bin/paceline-operator /rootfs

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
COPY --from=build /rootfs /
USER 65532:65532
ENTRYPOINT ["/usr/bin/paceline-operator"]
LABEL org.opencontainers.image.title=paceline-operator org.opencontainers.image.version=$VERSION \
    org.opencontainers.image.revision=$REVISION org.opencontainers.image.licenses=Apache-2.0
