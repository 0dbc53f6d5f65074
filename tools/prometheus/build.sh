#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes sure that the pinned Prometheus is in the user's cache folder, with promtool and hurry beside it, and prints the path of the program. They
# are built once for each version and pins, which takes some minutes of CPU.
set -eu
cd "$(dirname "$0")"
export GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0 # a container has no libraries for it

version=$(go list -m -f '{{.Version}}' github.com/prometheus/prometheus)
pins=$(cat go.mod go.sum build.sh hurry/*.go | sha256sum | cut -c1-12)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leat/prometheus
home=$cache/$version-$pins
if [ ! -e "$home/prometheus" ]; then
	echo "==> building Prometheus $version (about three minutes of CPU, once)" >&2
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/building-XXXXXX")
	trap 'rm -rf "$work"' EXIT
	# Without service discovery, which is most of its dependencies. The module has no web interface: that is built by Node.
	go build -buildvcs=false -trimpath -tags remove_all_sd -ldflags '-s -w' -o "$work/" \
		github.com/prometheus/prometheus/cmd/prometheus github.com/prometheus/prometheus/cmd/promtool ./hurry
	mv -T "$work" "$home" 2>/dev/null || [ -e "$home/prometheus" ] # another process may have been faster
fi
echo "$home/prometheus"
