#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes sure that a pinned program is in the user's cache folder, and prints its path. Each is built once for each version and pins.
set -eu
. "$(dirname "$0")/env.sh"
export GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0

case ${1:-} in
compose)
	module=github.com/docker/compose/v2 package=github.com/docker/compose/v2/cmd minutes=three
	flags() { echo "-X github.com/docker/compose/v2/internal.Version=$1"; }
	;;
*)
	echo "usage: programs.sh compose" >&2
	exit 2
	;;
esac
cd "$here/$1"
version=$(go list -m -f '{{.Version}}' "$module")
pins=$(cat go.mod go.sum "$here/programs.sh" | sha256sum | cut -c1-12)
home=$cache/programs/$1-$version-$pins
if [ ! -e "$home/$1" ]; then
	echo "==> building $1 $version (about $minutes minutes of CPU, once)" >&2
	mkdir -p "$cache/programs"
	work=$(mktemp -d "$cache/programs/building-XXXXXX")
	trap 'rm -rf "$work"' EXIT
	go build -buildvcs=false -trimpath -ldflags "-s -w $(flags "$version")" -o "$work/$1" "$package"
	mv -T "$work" "$home" 2>/dev/null || [ -e "$home/$1" ] # another process may have been faster
fi
echo "$home/$1"
