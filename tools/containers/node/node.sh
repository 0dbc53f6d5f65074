#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# node.sh up IMAGES          starts a Kubernetes node in namespaces of its own, with the images of an archive that `docker save` made
# node.sh enter COMMAND...   runs a command on the node, where kubectl is that cluster's
# node.sh down               ends the node with everything that runs on it
# node.sh ended              fails if something of it is left: a process, a mount or a control group
#
# The first process of the node is boot.sh. When it ends, the kernel ends the others and removes the mounts and the network, so nothing survives a failure.
# Logs stay in the cache folder until the next start.
set -euo pipefail
. "$(dirname "$0")/env.sh"

# running reports whether the process of the file is the node's, and not another one that got its number after a restart of the machine.
running() { [ -s "$home/pid" ] && grep -qs node/boot.sh "/proc/$(cat "$home/pid")/cmdline"; }
# first prints the process that boot.sh is on the machine; it is the only child of unshare.
first() { running && ps -o pid= --ppid "$(cat "$home/pid")" | tr -d ' '; }
# groups_left prints the node's control groups, one for each hierarchy.
groups_left() { for folder in "/sys/fs/cgroup/$group" /sys/fs/cgroup/*/"$group"; do [ ! -d "$folder" ] || echo "$folder"; done; }
# The groups of pods may go while find reads them, which it takes for a failure.
processes_left() { groups_left | while read -r folder; do find "$folder" -name cgroup.procs -exec cat {} + 2>/dev/null || true; done; }
mounts_left() { awk -v home="$home/" 'index($2, home) == 1 { print $2 }' /proc/mounts; }

# make_groups makes the node's control group in every hierarchy, because the kubelet requires it there: there are several in version 1, and one in version 2.
make_groups() {
	if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
		mkdir -p "/sys/fs/cgroup/$group"
	else
		for hierarchy in /sys/fs/cgroup/*/; do mkdir -p "$hierarchy$group"; done
	fi
}

up() {
	local images=$1 starting
	down
	rm -rf "$home/disk" "$home/log" "$home/ready"
	mkdir -p "$home/disk" "$home/log"
	make_groups
	setsid unshare --mount --net --pid --uts --fork --kill-child --mount-proc "$node/boot.sh" "$images" >"$home/log/boot.log" 2>&1 </dev/null &
	starting=$!
	echo "$starting" >"$home/pid"
	until [ -e "$home/ready" ]; do
		if ! kill -0 "$starting" 2>/dev/null; then
			tail -n 20 "$home/log/boot.log" >&2
			echo "leat: the node ended while it started; its logs are in $home/log" >&2
			exit 1
		fi
		sleep 0.1
	done
}

enter() {
	local pid
	pid=$(first) || { echo "leat: no node runs: start it with tools/containers/node/run.sh" >&2 && exit 1; }
	exec nsenter --target "$pid" --mount --net --pid --uts env --chdir="$PWD" KUBECONFIG=/run/node/pki/admin.kubeconfig PATH="$home/bin:$PATH" "$@"
}

down() {
	local pid
	# Everything that the node holds is thrown away, so nothing has to end in order.
	if pid=$(first) && [ -n "$pid" ]; then kill -KILL "$pid"; fi
	while running || [ -n "$(processes_left)" ]; do sleep 0.1; done
	groups_left | while read -r folder; do find "$folder" -depth -type d -exec rmdir {} +; done
	rm -rf "$home/pid" "$home/disk"
}

ended() {
	local left=""
	[ -z "$(processes_left)" ] || left+=" processes $(processes_left | tr '\n' ' ')"
	! running || left+=" process $(cat "$home/pid")"
	[ -z "$(mounts_left)" ] || left+=" mounts $(mounts_left | tr '\n' ' ')"
	[ -z "$(groups_left)" ] || left+=" control groups $(groups_left | tr '\n' ' ')"
	if [ -n "$left" ]; then
		echo "leat: the node left behind:$left" >&2
		exit 1
	fi
}

case ${1:-} in
up | enter | down | ended) "$@" ;;
*)
	sed -n '5,8s/^# //p' "$0" >&2
	exit 2
	;;
esac
