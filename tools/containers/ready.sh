#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# ready.sh [node] installs the packages that an engine needs or, with node, a Kubernetes node, and ends with 0 if this machine can start one. Otherwise it
# prints in one line what is missing, and ends with 3, by which a caller tells such a machine from a failure.
set -eu
. "$(dirname "$0")/env.sh"
needs=${1:-containers}
what="container engine"
[ "$needs" != node ] || what="Kubernetes node"
lacks() {
	echo "leat: no $what can start here: $*" >&2
	exit 3
}

[ "$(uname -s)" = Linux ] || lacks "it needs Linux"
[ "$(id -u)" = 0 ] || lacks "it has to run as root"
said=$("$top/tools/system.sh" "$needs" 2>&1) || lacks "$(echo "$said" | tail -n 1 | sed 's/^leat: //')"
[ -z "$said" ] || echo "$said"
# A container without rights of its own may be root and make no namespaces.
refused=$(unshare --mount --net --pid --fork true 2>&1) || lacks "namespaces are refused ($refused)"
# It may make namespaces and be refused what an engine does in them: mount layers over each other, connect containers, and translate addresses. No script of
# this folder is tried: a defect of these is a failure everywhere.
folder=$(mktemp -d "$cache/ready-XXXXXX")
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/lower" "$folder/upper" "$folder/work" "$folder/merged"
# shellcheck disable=SC2016 # the shell in the namespaces expands it
refused=$(unshare --mount --net --pid --fork /bin/sh -euc '
	mount -t overlay -o "lowerdir=$1/lower,upperdir=$1/upper,workdir=$1/work" overlay "$1/merged"
	ip link add name leat-bridge type bridge
	ip link add name leat-inside type veth peer name leat-outside
	iptables --table nat --numeric --list >/dev/null
	groups=/sys/fs/cgroup
	[ -e "$groups/cgroup.controllers" ] || groups=$groups/memory # version 1
	[ ! -d "$groups" ] || { mkdir -p "$groups/leat-ready" && rmdir "$groups/leat-ready"; }
' trial "$folder" 2>&1) || lacks "the kernel refuses what it does first ($(echo "$refused" | tail -n 1))"
grep -q ' /sys/fs/cgroup' /proc/mounts || lacks "no control groups are mounted at /sys/fs/cgroup"
[ "$needs" = node ] || exit 0
# kube-proxy needs nftables of the kernel, kube-router its sets of addresses, and the node's address an interface.
for try in "nft add table ip leat" "ipset create leat hash:ip" "ip link add leat0 type veth peer name leat1"; do
	# shellcheck disable=SC2086 # the command is meant to split
	refused=$(unshare --net $try 2>&1) || lacks "the kernel refuses ${try%% *} ($refused)"
done
