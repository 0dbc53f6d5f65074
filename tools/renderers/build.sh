#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes sure that a pinned program is in the user's cache folder, and prints its path: build.sh jsonnet|cue.
# Tests of the module render compare their results with those of these programs. Each is built once for each version and pins.
set -eu
name=$1
cd "$(dirname "$0")/$name"
export GOWORK=off GOFLAGS=-mod=readonly

package=$(sed -n 's/^tool //p' go.mod)
pins=$(cat go.mod go.sum | sha256sum | cut -c1-12)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leat/renderers
program=$cache/$name-$pins
if [ ! -e "$program" ]; then
	echo "==> building $package (once)" >&2
	mkdir -p "$cache"
	work=$(mktemp "$cache/building-XXXXXX")
	trap 'rm -f "$work"' EXIT
	go build -buildvcs=false -ldflags=-w -o "$work" "$package"
	mv "$work" "$program"
fi
echo "$program"
