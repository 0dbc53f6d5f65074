#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# engine.sh up      starts a Docker engine in a network namespace of its own, without a way out: nothing that runs in it leaves the machine
# engine.sh down    ends it, and what it mounted
# engine.sh ended   fails if something of it is left: a process, a mount or the namespace
#
# Images and what was built stay in the cache folder between runs.
set -eu
. "$(dirname "$0")/env.sh"

running() { [ -s "$cache/docker.pid" ] && kill -0 "$(cat "$cache/docker.pid")" 2>/dev/null; }
mounts() { awk -v data="$cache/data/" -v exec="$cache/exec/" 'index($2, data) == 1 || index($2, exec) == 1 { print $2 }' /proc/mounts | sort -r; }
# The engine's children carry the path of its folder in their arguments. The brackets keep grep from finding its own.
processes() { grep -las "$cache/[e]xec" /proc/[0-9]*/cmdline 2>/dev/null | sed 's|[^0-9]||g' | grep -vx $$ || true; }

up() {
	running && return
	[ -e "/run/netns/$namespace" ] || ip netns add "$namespace"
	ip -n "$namespace" link set lo up
	# For servers of the tests that containers reach; see test/containers.
	ip -n "$namespace" address replace 10.211.0.1/32 dev lo
	# By default networks take 172.17.0.0/16 and those after it, which may be the machine's.
	cat >"$cache/daemon.json" <<END
{
  "data-root": "$cache/data", "exec-root": "$cache/exec", "pidfile": "$cache/docker.pid", "hosts": ["$DOCKER_HOST"],
  "storage-driver": "overlay2", "exec-opts": ["native.cgroupdriver=cgroupfs"], "features": { "buildkit": true },
  "default-address-pools": [{ "base": "10.210.0.0/16", "size": 24 }]
}
END
	rm -f "$cache/docker.pid"
	# Compiles run in the engine's processes, whatever priority the client has.
	inside setsid nice -n 10 dockerd --config-file "$cache/daemon.json" >"$cache/dockerd.log" 2>&1 </dev/null &
	starting=$!
	until "$docker" version >/dev/null 2>&1; do
		if ! kill -0 "$starting" 2>/dev/null; then
			tail -n 20 "$cache/dockerd.log" >&2
			echo "leat: the Docker engine ended; its log is $cache/dockerd.log" >&2
			exit 1
		fi
		sleep 0.1
	done
}

down() {
	if running; then
		pid=$(cat "$cache/docker.pid")
		kill "$pid"
		while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
	fi
	for mount in $(mounts); do umount "$mount"; done
	[ ! -e "/run/netns/$namespace" ] || ip netns del "$namespace"
}

ended() {
	left=""
	[ -z "$(processes)" ] || left="$left processes $(processes | tr '\n' ' ')"
	[ -z "$(mounts)" ] || left="$left mounts $(mounts | tr '\n' ' ')"
	[ ! -e "/run/netns/$namespace" ] || left="$left namespace $namespace"
	if [ -n "$left" ]; then
		echo "leat: the engine left behind:$left" >&2
		exit 1
	fi
}

case ${1:-} in
up | down | ended) "$1" ;;
*)
	sed -n '5,7s/^# //p' "$0" >&2
	exit 2
	;;
esac
