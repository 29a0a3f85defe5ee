# docker build -f deploy/images/operator.Dockerfile -t paceline/operator .
FROM debian:bookworm AS build
COPY . /src
RUN cd /src && scripts/build paceline-operator && deploy/images/rootfs build/bin/paceline-operator /rootfs

FROM scratch
COPY --from=build /rootfs /
USER 65532:65532
ENTRYPOINT ["/usr/bin/paceline-operator"]
LABEL org.opencontainers.image.title=paceline-operator org.opencontainers.image.licenses=Apache-2.0
