#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes sure that the programs of the version before are in the user's cache folder, and prints that folder. They are
# built once for each commit, from this repository's history. The exit code is 3 where the history lacks the commit.
set -eu
cd "$(dirname "$0")"
unset GOWORK
export GOFLAGS=-trimpath CGO_ENABLED=0

commit=$(cat commit)
pins=$(sha256sum <build.sh | cut -c1-12)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leat/before
home=$cache/$commit-$pins
if [ ! -e "$home/agent" ]; then
	if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
		echo "==> the version before, commit $commit, is not in this checkout (git fetch --unshallow): upgrades are NOT tested" >&2
		exit 3
	fi
	echo "==> building the version before, commit $commit (some minutes of CPU, once)" >&2
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/building-XXXXXX")
	trap 'rm -rf "$work"' EXIT
	mkdir "$work/source" "$work/programs"
	git -C "$(git rev-parse --show-toplevel)" archive --output "$work/source.tar" "$commit"
	tar -x -C "$work/source" -f "$work/source.tar"
	(cd "$work/source" && for service in gitcache distributor tunnel agent; do
		go build -buildvcs=false -ldflags=-s -o "$work/programs/$service" "./services/$service/cmd/$service"
	done)
	mv -T "$work/programs" "$home" 2>/dev/null || [ -e "$home/agent" ] # another process may have been faster
fi
echo "$home"
