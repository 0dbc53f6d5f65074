#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes sure that the pinned Traefik is in the user's cache folder, and prints where: a folder with the program and with crds/,
# the definitions of the kinds of the Gateway API. It is built once for each version and pins, which takes some minutes of CPU.
set -eu
cd "$(dirname "$0")"
export GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0

version=$(go list -m -f '{{.Version}}' github.com/traefik/traefik/v3)
pins=$(cat go.mod go.sum build.sh | sha256sum | cut -c1-12)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leat/traefik
home=$cache/$version-$pins
if [ ! -e "$home/traefik" ]; then
	echo "==> building Traefik $version (about fifteen minutes of CPU, once)" >&2
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/building-XXXXXX")
	trap 'rm -rf "$work"' EXIT
	mkdir "$work/crds"
	go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$work/traefik" github.com/traefik/traefik/v3/cmd/traefik
	cp "$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)"/config/crd/standard/*.yaml "$work/crds/"
	chmod -R u+w "$work"
	mv -T "$work" "$home" 2>/dev/null || [ -e "$home/traefik" ] # another process may have been faster
fi
echo "$home"
