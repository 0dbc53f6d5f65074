#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# ready.sh installs the packages that an engine needs, and ends with 0 if this machine can start one. Otherwise it prints in one line what is missing, and
# ends with 3, by which a caller tells such a machine from a failure.
set -eu
. "$(dirname "$0")/env.sh"
lacks() {
	echo "leat: no container engine can start here: $*" >&2
	exit 3
}

[ "$(uname -s)" = Linux ] || lacks "it needs Linux"
[ "$(id -u)" = 0 ] || lacks "it has to run as root"
said=$("$top/tools/system.sh" containers 2>&1) || lacks "$(echo "$said" | tail -n 1 | sed 's/^leat: //')"
[ -z "$said" ] || echo "$said"
# A container without rights of its own may be root and make no namespaces.
refused=$(unshare --mount --net --pid --fork true 2>&1) || lacks "namespaces are refused ($refused)"
grep -q ' /sys/fs/cgroup' /proc/mounts || lacks "no control groups are mounted at /sys/fs/cgroup"
