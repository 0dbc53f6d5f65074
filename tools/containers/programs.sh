#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes sure that a pinned program is in the user's cache folder, and prints its path. Each is built once for each version and pins.
set -eu
. "$(dirname "$0")/env.sh"
export GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0

flags() { :; }
trim=-trimpath
case ${1:-} in
compose)
	pinned=compose module=github.com/docker/compose/v2 package=github.com/docker/compose/v2/cmd minutes=three
	flags() { echo "-X github.com/docker/compose/v2/internal.Version=$1"; }
	;;
kubelet | kube-proxy)
	pinned=node/kubernetes module=k8s.io/kubernetes package=k8s.io/kubernetes/cmd/$1 minutes=four
	# As internal/localkube compiles the control plane, so that most packages are compiled already.
	trim=
	# Components that compare versions refuse v0.0.0-master.
	flags() {
		for value in "gitVersion=$1" gitMajor=1 "gitMinor=$(echo "$1" | cut -d. -f2)" gitTreeState=clean gitCommit=0 buildDate=1970-01-01T00:00:00Z; do
			printf ' -X k8s.io/component-base/version.%s' "$value"
		done
	}
	;;
coredns)
	pinned=node/coredns module=github.com/coredns/coredns package=. minutes=two
	;;
kube-router)
	pinned=node/kube-router module=github.com/cloudnativelabs/kube-router/v2 package=github.com/cloudnativelabs/kube-router/v2/cmd/kube-router minutes=two
	;;
*)
	echo "usage: programs.sh compose|kubelet|kube-proxy|coredns|kube-router" >&2
	exit 2
	;;
esac
cd "$here/$pinned"
version=$(go list -m -f '{{.Version}}' "$module")
pins=$(cat go.mod go.sum "$here/programs.sh" | sha256sum | cut -c1-12)
home=$cache/programs/$1-$version-$pins
if [ ! -e "$home/$1" ]; then
	echo "==> building $1 $version (about $minutes minutes of CPU, once)" >&2
	mkdir -p "$cache/programs"
	work=$(mktemp -d "$cache/programs/building-XXXXXX")
	trap 'rm -rf "$work"' EXIT
	# shellcheck disable=SC2086 # there may be no flag
	go build -buildvcs=false $trim -ldflags "-s -w $(flags "$version")" -o "$work/$1" "$package"
	mv -T "$work" "$home" 2>/dev/null || [ -e "$home/$1" ] # another process may have been faster
fi
echo "$home/$1"
