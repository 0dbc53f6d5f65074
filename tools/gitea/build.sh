#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes sure that the pinned Gitea is in the user's cache folder, and prints where: a folder with the program `gitea` and the
# files that it needs beside it. It is built once for each version and pins, which takes some minutes.
set -eu
cd "$(dirname "$0")"
export GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=1 # its SQLite is C

version=$(go list -m -f '{{.Version}}' code.gitea.io/gitea)
pins=$(cat go.mod go.sum build.sh | sha256sum | cut -c1-12)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leat/gitea
home=$cache/$version-$pins
if [ ! -e "$home/gitea" ]; then
	echo "==> building Gitea $version (about five minutes of CPU, once)" >&2
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/building-XXXXXX")
	trap 'rm -rf "$work"' EXIT
	go build -buildvcs=false -tags 'sqlite sqlite_unlock_notify' -ldflags '-s -w' -o "$work/gitea" code.gitea.io/gitea
	source=$(go list -m -f '{{.Dir}}' code.gitea.io/gitea)
	cp -R "$source/templates" "$source/options" "$source/public" "$work/"
	chmod -R u+w "$work"
	mv -T "$work" "$home" 2>/dev/null || [ -e "$home/gitea" ] # another process may have been faster
fi
echo "$home"
