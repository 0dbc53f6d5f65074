# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# What the scripts of this folder share. Everything they make is below $cache, and may be deleted when no engine runs.
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leat/containers
namespace=leat-engine
export DOCKER_HOST="unix://$cache/docker.sock" DOCKER_BUILDKIT=1
# Debian's client: it builds with BuildKit without a plug-in. Another docker on PATH may be anything.
docker=/usr/bin/docker
mkdir -p "$cache"

# inside runs a command in the network of the engine, where published ports are on 127.0.0.1. It is nsenter, because `ip netns exec` mounts a /sys without
# control groups.
inside() { nsenter --net="/run/netns/$namespace" "$@"; }
