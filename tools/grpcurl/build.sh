#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes sure that the pinned grpcurl is in the user's cache folder, and prints the path of the program.
# It is built once for each version and pins.
set -eu
cd "$(dirname "$0")"
export GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0

version=$(go list -m -f '{{.Version}}' github.com/fullstorydev/grpcurl)
pins=$(cat go.mod go.sum build.sh | sha256sum | cut -c1-12)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leat/grpcurl
program=$cache/grpcurl-$version-$pins
if [ ! -e "$program" ]; then
	echo "==> building grpcurl $version (a minute of CPU, once)" >&2
	mkdir -p "$cache"
	work=$(mktemp "$cache/building-XXXXXX")
	trap 'rm -f "$work"' EXIT
	go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$work" github.com/fullstorydev/grpcurl/cmd/grpcurl
	mv -T "$work" "$program"
fi
echo "$program"
