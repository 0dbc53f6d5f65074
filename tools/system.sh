#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs the servers that tests run for real, where they are missing. On Debian and Ubuntu as root it installs them;
# elsewhere it says what to install.
set -eu

missing=""
command -v git >/dev/null 2>&1 || missing="$missing git"
command -v redis-server >/dev/null 2>&1 || missing="$missing redis-server"
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null 2>&1 || missing="$missing postgresql"
command -v curl >/dev/null 2>&1 || missing="$missing curl"
command -v openssl >/dev/null 2>&1 || missing="$missing openssl"
command -v nginx >/dev/null 2>&1 || [ -x /usr/sbin/nginx ] || missing="$missing nginx-light"
command -v zstd >/dev/null 2>&1 || missing="$missing zstd"
command -v ssh >/dev/null 2>&1 || missing="$missing openssh-client"
command -v gpg >/dev/null 2>&1 || missing="$missing gnupg"
command -v sshd >/dev/null 2>&1 || [ -x /usr/sbin/sshd ] || missing="$missing openssh-server"
command -v ps >/dev/null 2>&1 || missing="$missing procps"
# A browser is large (124 MB to download), so only what signs people in with one asks for it: tools/system.sh browser.
[ "${1:-}" != browser ] || command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 ||
	command -v google-chrome >/dev/null 2>&1 || missing="$missing chromium"
# A container engine as well: tools/system.sh containers. And what a Kubernetes node needs besides: tools/system.sh node.
if [ "${1:-}" = containers ] || [ "${1:-}" = node ]; then
	command -v dockerd >/dev/null 2>&1 || [ -x /usr/sbin/dockerd ] || missing="$missing docker.io"
	command -v runc >/dev/null 2>&1 || [ -x /usr/sbin/runc ] || missing="$missing runc"
	command -v busybox >/dev/null 2>&1 || [ -x /bin/busybox ] || missing="$missing busybox-static"
	command -v ip >/dev/null 2>&1 || missing="$missing iproute2"
	command -v iptables >/dev/null 2>&1 || [ -x /usr/sbin/iptables ] || missing="$missing iptables"
fi
if [ "${1:-}" = node ]; then
	command -v containerd >/dev/null 2>&1 || missing="$missing containerd"
	[ -x /usr/lib/cni/ptp ] || missing="$missing containernetworking-plugins"
	command -v nft >/dev/null 2>&1 || [ -x /usr/sbin/nft ] || missing="$missing nftables"
	command -v ipset >/dev/null 2>&1 || [ -x /usr/sbin/ipset ] || missing="$missing ipset"
	command -v gcc >/dev/null 2>&1 || missing="$missing gcc"
	[ -e /usr/include/stdlib.h ] || missing="$missing libc6-dev"
	command -v nc.openbsd >/dev/null 2>&1 || missing="$missing netcat-openbsd"
fi
[ -z "$missing" ] && exit 0

if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
	echo "==> installing$missing"
	# No daemon is started by the installation: tests start their own on free loopback ports.
	policy=/usr/sbin/policy-rc.d
	[ -e "$policy" ] || { printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && trap 'rm -f "$policy"' EXIT; }
	apt-get update -qq
	# shellcheck disable=SC2086 # the list is meant to split
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
	exit 0
fi
echo "leat: please install:$missing (for example: sudo apt-get install$missing), then run make again" >&2
exit 1
