#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes sure that a pinned program is in the user's cache folder, and prints its path. Each is built once for each version and pins.
set -eu
. "$(dirname "$0")/env.sh"
export GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0

flags() { :; }
trim=-trimpath tags=
case ${1:-} in
compose)
	pinned=compose module=github.com/docker/compose/v2 package=github.com/docker/compose/v2/cmd minutes=three
	flags() { echo "-X github.com/docker/compose/v2/internal.Version=$1"; }
	;;
kubelet | kube-proxy)
	pinned=node/kubernetes module=k8s.io/kubernetes package=k8s.io/kubernetes/cmd/$1 minutes=four
	# As internal/runtime/localkube compiles the control plane, so that most packages are compiled already.
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
otelcol)
	pinned=otelcol module=go.opentelemetry.io/collector/otelcol package=. minutes=two
	tags=grpcnotrace # as upstream; it lets the linker leave out most methods
	;;
jaeger)
	pinned=jaeger module=github.com/jaegertracing/jaeger package=github.com/jaegertracing/jaeger/cmd/jaeger minutes=four
	;;
prometheus) # tools/prometheus has the pin
	exec "$top/tools/prometheus/build.sh"
	;;
kube-router)
	pinned=node/kube-router module=github.com/cloudnativelabs/kube-router/v2 package=github.com/cloudnativelabs/kube-router/v2/cmd/kube-router minutes=two
	;;
*)
	echo "usage: programs.sh compose|kubelet|kube-proxy|coredns|kube-router|otelcol|jaeger|prometheus" >&2
	exit 2
	;;
esac
# reduced copies a module to $source, with components.go.in as its list of components, and prints the go.mod that uses the copy.
reduced() {
	go mod download "$1" # list knows no folder of a module that was never downloaded
	cp -r "$(go list -m -f '{{.Dir}}' "$1")" "$source/module"
	chmod -R u+w "$source/module"
	list=$source/module/cmd/jaeger/internal/components.go
	[ -e "$list" ] || { echo "leat: $1 has no cmd/jaeger/internal/components.go; correct programs.sh for this version" >&2 && return 1; }
	cp components.go.in "$list"
	cp go.mod go.sum "$source/"
	go mod edit -replace "$1=$source/module" "$source/go.mod"
	echo "$source/go.mod"
}

cd "$here/$pinned"
version=$(go list -m -f '{{.Version}}' "$module")
sources() { find . -name '*.go' -o -name '*.in' | sort | xargs -r cat; }
sums=$({ cat go.mod go.sum "$here/programs.sh" && sources; } | sha256sum | cut -c1-12)
home=$cache/programs/$1-$version-$sums
if [ ! -e "$home/$1" ]; then
	echo "==> building $1 $version (about $minutes minutes of CPU, once)" >&2
	mkdir -p "$cache/programs"
	work=$(mktemp -d "$cache/programs/building-XXXXXX")
	source=$(mktemp -d "$cache/programs/source-XXXXXX")
	trap 'rm -rf "$work" "$source"' EXIT
	pins=
	[ ! -e components.go.in ] || pins=-modfile=$(reduced "$module")
	# shellcheck disable=SC2086 # there may be no flag
	go build -buildvcs=false $trim $pins -tags "$tags" -ldflags "-s -w $(flags "$version")" -o "$work/$1" "$package"
	mv -T "$work" "$home" 2>/dev/null || [ -e "$home/$1" ] # another process may have been faster
fi
echo "$home/$1"
