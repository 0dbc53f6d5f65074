# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# What the scripts of this folder, and of node/ below it, share. Everything they make is below $cache, and may be deleted when no engine and no node runs.
here=$(cd "$(dirname "$0")" && pwd)
here=${here%/node}
top=$(cd "$here/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leat/containers
namespace=leat-engine
export DOCKER_HOST="unix://$cache/docker.sock" DOCKER_BUILDKIT=1
# Debian's client: it builds with BuildKit without a plug-in. Another docker on PATH may be anything.
docker=/usr/bin/docker
mkdir -p "$cache"
. "$top/deploy/images.env"

# own prints the name of a program's image.
own() { printf '%s/%s:%s\n' "$IMAGE_REPOSITORY" "$1" "$IMAGE_TAG"; }

# build is `docker build`, which prints its failure alone. The engine asks its client every few seconds whether it is there, and gives it up on a machine
# that is busy enough. Such a build begins again.
build() {
	for _ in 1 2 3 4 5; do
		complaint=$("$docker" build --quiet "$@" 2>&1 >/dev/null) && return
		case $complaint in
		*"transport is closing"* | *"connection is closing"* | *"no active session"*) ;;
		*) break ;;
		esac
	done
	echo "$complaint" >&2
	return 1
}

# inside runs a command in the network of the engine, where published ports are on 127.0.0.1. It is nsenter, because `ip netns exec` mounts a /sys without
# control groups.
inside() { nsenter --net="/run/netns/$namespace" "$@"; }
