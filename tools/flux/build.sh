#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes sure that the pinned controllers of Flux are in the user's cache folder, and prints where: a folder with the programs
# and with crds/, the definitions of their kinds. They are built once for each version and pins, which takes some minutes of CPU.
set -eu
cd "$(dirname "$0")"
export GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0

version=$(go list -m -f '{{.Version}}' github.com/fluxcd/kustomize-controller)
pins=$(cat go.mod go.sum build.sh | sha256sum | cut -c1-12)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leat/flux
home=$cache/$version-$pins
if [ ! -e "$home/kustomize-controller" ]; then
	echo "==> building the controllers of Flux $version (about ten minutes of CPU, once)" >&2
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/building-XXXXXX")
	trap 'rm -rf "$work"' EXIT
	mkdir "$work/crds"
	for name in source-controller kustomize-controller; do
		go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$work/$name" "github.com/fluxcd/$name"
		cp "$(go list -m -f '{{.Dir}}' "github.com/fluxcd/$name")"/config/crd/bases/*.yaml "$work/crds/"
	done
	chmod -R u+w "$work"
	mv -T "$work" "$home" 2>/dev/null || [ -e "$home/kustomize-controller" ] # another process may have been faster
fi
echo "$home"
