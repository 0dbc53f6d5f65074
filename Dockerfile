# syntax=docker/dockerfile:1
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# One file for every Go deployable: docker build --build-arg SERVICE=gitcache -t leat/gitcache .
# With --target git gitcache's image has the git executable, for LEAT_GITCACHE_BACKEND=git.
# `make pin` writes the digests of the images below, and of those in deploy/, beside their tags.
FROM golang:1.26-bookworm AS build
ARG SERVICE
ARG VERSION=dev
WORKDIR /src
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
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOWORK=off go -C services/${SERVICE} build -trimpath \
      -ldflags "-s -w -X github.com/leatdev/leat/internal/app.version=${VERSION}" \
      -o /out/leat-service ./cmd/${SERVICE} \
    && mkdir -p /out/data

# git runs programs that its configuration and its server name, so other images do not have it.
FROM debian:bookworm-slim AS git
ARG SERVICE
RUN test "${SERVICE}" = gitcache \
    && apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/leat-service /usr/local/bin/leat-service
COPY --from=build --chown=65532:65532 --chmod=0700 /out/data /var/lib/leat
USER 65532:65532
VOLUME /var/lib/leat
ENTRYPOINT ["/usr/local/bin/leat-service"]

# Only the program, the certificate authorities that it trusts and an empty folder. The program embeds the time zones.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/leat-service /usr/local/bin/leat-service
COPY --from=build --chown=65532:65532 --chmod=0700 /out/data /var/lib/leat
USER 65532:65532
VOLUME /var/lib/leat
ENTRYPOINT ["/usr/local/bin/leat-service"]
