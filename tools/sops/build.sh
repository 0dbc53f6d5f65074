#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes sure that the pinned sops is in the user's cache folder, and prints the path of the program.
# It is built once for each version and pins.
set -eu
cd "$(dirname "$0")"
export GOWORK=off GOFLAGS=-mod=readonly

version=$(go list -m -f '{{.Version}}' github.com/getsops/sops/v3)
pins=$(cat go.mod go.sum build.sh | sha256sum | cut -c1-12)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leat/sops
program=$cache/sops-$version-$pins
if [ ! -e "$program" ]; then
	echo "==> building sops $version (some minutes of CPU, once)" >&2
	mkdir -p "$cache"
	work=$(mktemp "$cache/building-XXXXXX")
	trap 'rm -f "$work"' EXIT
	go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$work" github.com/getsops/sops/v3/cmd/sops
	mv -T "$work" "$program"
fi
echo "$program"
