#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes sure that the pinned Vault is in the user's cache folder, and prints the path of the program. It is built once for each version and pins,
# which takes some minutes of CPU.
set -eu
cd "$(dirname "$0")"
export GOWORK=off GOFLAGS='-mod=readonly -trimpath'

version=$(go list -m -f '{{.Version}}' github.com/hashicorp/vault)
pins=$(cat go.mod go.sum main.go build.sh | sha256sum | cut -c1-12)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leat/vault
home=$cache/$version-$pins
if [ ! -e "$home/vault" ]; then
	echo "==> building Vault $version (about five minutes of CPU, once)" >&2
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/building-XXXXXX")
	trap 'rm -rf "$work"' EXIT
	go build -buildvcs=false -ldflags '-s -w' -o "$work/vault" .
	mv -T "$work" "$home" 2>/dev/null || [ -e "$home/vault" ] # another process may have been faster
fi
echo "$home/vault"
