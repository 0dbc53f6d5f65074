#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes sure that the pinned registry is in the user's cache folder, and prints the path of the program. It is built once for each version and pins,
# which takes about two minutes of CPU.
set -eu
cd "$(dirname "$0")"
export GOWORK=off GOFLAGS=-mod=readonly

version=$(go list -m -f '{{.Version}}' github.com/distribution/distribution/v3)
pins=$(cat go.mod go.sum build.sh | sha256sum | cut -c1-12)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leat/registry
home=$cache/$version-$pins
if [ ! -e "$home/registry" ]; then
	echo "==> building the distribution registry $version (about two minutes of CPU, once)" >&2
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/building-XXXXXX")
	trap 'rm -rf "$work"' EXIT
	go build -buildvcs=false -ldflags '-s -w' -o "$work/registry" github.com/distribution/distribution/v3/cmd/registry
	mv -T "$work" "$home" 2>/dev/null || [ -e "$home/registry" ] # another process may have been faster
fi
echo "$home/registry"
