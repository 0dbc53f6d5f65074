#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes sure that the pinned controllers of Argo CD are in the user's cache folder, and prints where: a folder with the programs,
# and with manifests/, the definitions of their kinds and their settings. They are built once for each version and pins, which
# takes some minutes of CPU.
set -eu
cd "$(dirname "$0")"
export GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0

version=$(go list -m -f '{{.Version}}' github.com/argoproj/argo-cd/v3)
pins=$(cat go.mod go.sum main.go build.sh | sha256sum | cut -c1-12)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leat/argocd
home=$cache/$version-$pins
if [ ! -e "$home/argocd-repo-server" ]; then
	echo "==> building the controllers of Argo CD $version (about ten minutes of CPU, once)" >&2
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/building-XXXXXX")
	trap 'rm -rf "$work"' EXIT
	go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$work/argocd-application-controller" .
	ln "$work/argocd-application-controller" "$work/argocd-repo-server"
	source=$(go list -m -f '{{.Dir}}' github.com/argoproj/argo-cd/v3)
	mkdir "$work/manifests"
	cp -R "$source/manifests/crds" "$source/manifests/base/config" "$work/manifests/"
	chmod -R u+w "$work"
	install "$source/hack/git-verify-wrapper.sh" "$work/" # the repository server looks for it on the PATH
	mv -T "$work" "$home" 2>/dev/null || [ -e "$home/argocd-repo-server" ] # another process may have been faster
fi
echo "$home"
