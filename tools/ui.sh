#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# ui.sh build makes the web UI in services/distributor/internal/ui/dist, which the distributor embeds. It does nothing if what is there was made of the same
# files. ui.sh run SCRIPT [ARG…] runs a script of web/package.json. Both install the packages of web/package-lock.json first, if they are missing. The
# script exits with 3 where there is no node that can do this.
set -eu
cd "$(dirname "$0")/.."
dist=services/distributor/internal/ui/dist
# sums prints the sums of files whose names come from standard input.
sums() { LC_ALL=C sort | tr '\n' '\0' | xargs -0 sha256sum; }

if [ "$1" = build ]; then
	# What Git ignores, such as node_modules, is no input. What it does not track yet is one.
	inputs=$({ git ls-files --cached --others --exclude-standard -- web && echo tools/ui.sh && echo tools/node.sh; } |
		while read -r file; do [ ! -f "$file" ] || echo "$file"; done | sums | sha256sum | cut -c1-64)
	[ "$(cat $dist/.inputs 2>/dev/null)" != "$inputs" ] || [ ! -e $dist/index.html ] || exit 0
fi

folder=$(tools/node.sh)
PATH=$folder:$PATH
export PATH
lock=$(sha256sum <web/package-lock.json)
if [ "$(cat web/node_modules/.leat-lock 2>/dev/null)" != "$lock" ]; then
	echo "==> installing the packages of the web UI (a minute the first time)" >&2
	(cd web && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2)
	echo "$lock" >web/node_modules/.leat-lock
fi

case $1 in
build)
	echo "==> building the web UI" >&2
	rm -f $dist/.inputs
	(cd web && npm run --silent build >&2)
	echo "$inputs" >$dist/.inputs
	;;
run)
	shift
	cd web
	exec npm run --silent "$@"
	;;
esac
