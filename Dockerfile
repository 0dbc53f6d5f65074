# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# One file for every Go deployable and for the command line:
#
#   docker build --build-arg SERVICE=gitcache -t ghcr.io/leatdev/leat/gitcache:0.2.0-dev .    also distributor, tunnel and agent
#   docker build --target cli -t ghcr.io/leatdev/leat/leat:0.2.0-dev .                        the command line
#   docker build --build-arg SERVICE=gitcache --target git …                                  with git, for LEAT_GITCACHE_BACKEND=git
#   docker build --target demo-git -t ghcr.io/leatdev/leat/demo-git:0.2.0-dev .               the demo repository of docker-compose.yml
#
# deploy/images.env has the names.
#
# VERSION and REVISION, a Git commit, are for the program and the labels. GOPROXY, GOFLAGS and npm_config_registry
# are for builds behind a module proxy and an npm registry of your own. `make pin` writes the digests of the images below, and of
# those in deploy/, beside their tags.

# FROM knows only arguments that stand in front of the first stage. Each stage that uses this one names it again.
ARG SERVICE=distributor

# The web UI, which the distributor and the command line embed. A build that is in the checkout is not used.
FROM node:26-bookworm-slim AS build-ui
ARG npm_config_registry
WORKDIR /src/web
COPY web/package.json web/package-lock.json web/.npmrc ./
RUN --mount=type=cache,target=/root/.npm npm ci --loglevel=error
COPY web ./
RUN npm run --silent build

FROM scratch AS ui-distributor
COPY --from=build-ui /src/services/distributor/internal/ui/dist/ /

# The other services embed nothing, and are not built again when only the web UI changes.
FROM scratch AS ui-gitcache
FROM scratch AS ui-tunnel
FROM scratch AS ui-agent
FROM ui-${SERVICE} AS ui

FROM golang:1.26-bookworm AS go
# Without a value these leave the image's own settings alone.
ARG GOPROXY
ARG GOFLAGS
WORKDIR /src

FROM go AS build
ARG SERVICE
ARG VERSION=0.2.0-dev
# The module files first: dependencies stay cached while code changes.
COPY gen/go.mod gen/go.sum gen/
COPY internal/go.mod internal/go.sum internal/
COPY render/go.mod render/go.sum render/
COPY services/${SERVICE}/go.mod services/${SERVICE}/go.sum services/${SERVICE}/
RUN --mount=type=cache,target=/go/pkg/mod GOWORK=off go -C services/${SERVICE} mod download
COPY gen gen
COPY internal internal
COPY render render
COPY services/${SERVICE} services/${SERVICE}
COPY --from=ui / services/distributor/internal/ui/dist/
ARG REVISION
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOWORK=off go -C services/${SERVICE} build -trimpath -buildvcs=false \
      -ldflags "-s -w -X github.com/leatdev/leat/internal/runtime/app.version=${VERSION} -X github.com/leatdev/leat/internal/runtime/app.commit=${REVISION}" \
      -o /out/usr/local/bin/leat-service ./cmd/${SERVICE}
COPY deploy/image deploy/image
COPY LICENSE THIRD_PARTY_NOTICES.txt ./
# The root of the image as it will be, because a COPY that names an owner also gives it the folders above. A file's time is part of
# its layer, so it is the same for every build.
RUN install -D -m 0644 deploy/image/ca-certificates.crt /out/etc/ssl/certs/ca-certificates.crt \
    && install -D -m 0644 LICENSE /out/licenses/LICENSE \
    && install -D -m 0644 THIRD_PARTY_NOTICES.txt /out/licenses/THIRD_PARTY_NOTICES.txt \
    && install -d -m 0700 -o 65532 -g 65532 /out/var/lib/leat \
    && find /out -exec touch -d @0 {} +

# The command line contains the services: `leat up` runs them in its own process.
FROM go AS build-cli
ARG VERSION=0.2.0-dev
COPY gen/go.mod gen/go.sum gen/
COPY internal/go.mod internal/go.sum internal/
COPY render/go.mod render/go.sum render/
COPY services/agent/go.mod services/agent/go.sum services/agent/
COPY services/distributor/go.mod services/distributor/go.sum services/distributor/
COPY services/gitcache/go.mod services/gitcache/go.sum services/gitcache/
COPY services/tunnel/go.mod services/tunnel/go.sum services/tunnel/
COPY cli/go.mod cli/go.sum cli/
RUN --mount=type=cache,target=/go/pkg/mod GOWORK=off go -C cli mod download
COPY gen gen
COPY internal internal
COPY render render
COPY services services
COPY cli cli
COPY --from=ui-distributor / services/distributor/internal/ui/dist/
ARG REVISION
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOWORK=off go -C cli build -trimpath -buildvcs=false \
      -ldflags "-s -w -X github.com/leatdev/leat/internal/runtime/app.version=${VERSION} -X github.com/leatdev/leat/internal/runtime/app.commit=${REVISION}" \
      -o /out/usr/local/bin/leat ./cmd/leat
COPY deploy/image deploy/image
COPY LICENSE THIRD_PARTY_NOTICES.txt ./
RUN install -D -m 0644 deploy/image/ca-certificates.crt /out/etc/ssl/certs/ca-certificates.crt \
    && install -D -m 0644 LICENSE /out/licenses/LICENSE \
    && install -D -m 0644 THIRD_PARTY_NOTICES.txt /out/licenses/THIRD_PARTY_NOTICES.txt \
    && install -d -m 0700 -o 65532 -g 65532 /out/home/leat \
    && find /out -exec touch -d @0 {} +

# git runs programs that its configuration and its server name, so other images do not have it.
FROM debian:bookworm-slim AS with-git
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git \
    && rm -rf /var/lib/apt/lists/*

FROM with-git AS git
ARG SERVICE
ARG VERSION=0.2.0-dev
ARG REVISION
RUN test "${SERVICE}" = gitcache
COPY --from=build /out/usr/local/bin/ /usr/local/bin/
COPY --from=build /out/licenses/ /licenses/
COPY --from=build /out/var/lib/ /var/lib/
USER 65532:65532
LABEL org.opencontainers.image.title="Leat gitcache with git" \
      org.opencontainers.image.description="Git-aware CDN and auth proxy for fleets of Kubernetes clusters" \
      org.opencontainers.image.source="https://github.com/leatdev/leat" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="The Leat Authors" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
HEALTHCHECK --interval=5s --timeout=10s --start-period=1m --retries=6 CMD ["/usr/local/bin/leat-service", "health"]
ENTRYPOINT ["/usr/local/bin/leat-service"]

# The Git host of the profile demo of docker-compose.yml, with the demo repository.
FROM build-cli AS build-demo-git
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOWORK=off go -C cli build -trimpath -buildvcs=false -ldflags "-s -w" -o /git/usr/local/bin/leat-git ./cmd/leat-git \
    && install -d -m 0700 -o 65532 -g 65532 /git/var/lib/leat \
    && find /git -exec touch -d @0 {} +

FROM with-git AS demo-git
ARG VERSION=0.2.0-dev
ARG REVISION
COPY --from=build-demo-git /git/usr/local/bin/ /usr/local/bin/
COPY --from=build-demo-git /out/licenses/ /licenses/
COPY --from=build-demo-git /git/var/lib/ /var/lib/
USER 65532:65532
LABEL org.opencontainers.image.title="Leat demo repository" \
      org.opencontainers.image.description="A Git host with the demo repository of Leat" \
      org.opencontainers.image.source="https://github.com/leatdev/leat" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="The Leat Authors" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
HEALTHCHECK --interval=5s --timeout=10s --start-period=1m CMD ["git", "ls-remote", "--exit-code", "http://127.0.0.1:8080/demo.git", "main"]
ENTRYPOINT ["/usr/local/bin/leat-git", "-dir", "/var/lib/leat", "-listen", ":8080"]

# The command line, the certificate authorities that it trusts, and a folder for its configuration, which is the home of its user.
FROM scratch AS cli
ARG VERSION=0.2.0-dev
ARG REVISION
COPY --from=build-cli /out/ /
ENV HOME=/home/leat
USER 65532:65532
WORKDIR /home/leat
LABEL org.opencontainers.image.title="Leat command line" \
      org.opencontainers.image.description="Git-aware CDN and auth proxy for fleets of Kubernetes clusters" \
      org.opencontainers.image.source="https://github.com/leatdev/leat" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="The Leat Authors" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENTRYPOINT ["/usr/local/bin/leat"]

# Only the program, the certificate authorities that it trusts and an empty folder. The program embeds the time zones.
# The folder is not a VOLUME, because each container would get a volume that nobody named and that outlives it.
FROM scratch
ARG SERVICE
ARG VERSION=0.2.0-dev
ARG REVISION
COPY --from=build /out/ /
USER 65532:65532
LABEL org.opencontainers.image.title="Leat ${SERVICE}" \
      org.opencontainers.image.description="Git-aware CDN and auth proxy for fleets of Kubernetes clusters" \
      org.opencontainers.image.source="https://github.com/leatdev/leat" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="The Leat Authors" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
HEALTHCHECK --interval=5s --timeout=10s --start-period=1m --retries=6 CMD ["/usr/local/bin/leat-service", "health"]
ENTRYPOINT ["/usr/local/bin/leat-service"]
