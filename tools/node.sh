#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Prints the folder with the node and npm that build the web UI, for the PATH. That is the system's node if it is 22.12 or newer. Otherwise, and with the
# argument `pinned`, the script fetches both from the npm registry, once, by their pinned sums, into the cache folder of the Kubernetes control plane. It
# exits with 3 where there is no such node: then install one. npm_config_registry names another registry.
set -eu

node=26.12.1 npm=12.2.2
x64=sha512-jk5LMAmgHlPlPMWpsUrSOqNaEZG+11UNd35hWQ+p5/XGaelWuTqJ69IcAy/5xtPPN4d5ZRBNOGB6gLMCh2kL9A==
arm64=sha512-8Oxs6Y7rDcKufVIM/zYRSwytj46WOrZk7yFCLTKDcs17bBjAeD9HMAqo97hMfMyxozIud0S4vZCs5WB/3iavNQ==
npmsum=sha512-KglgbZyacf7jH+FHuNRqVuCzQi8VhI2a7J87Ix43FsPTuZoGWmIXXGdZtBUOA79vwL+IJREqURVzupA7PsQTcA==

isNew='const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || a === 22 && b >= 12 ? 0 : 1)'
if [ "${1:-}" != pinned ] && command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1 && node -e "$isNew"; then
	dirname "$(command -v node)"
	exit 0
fi

case "$(uname -s) $(uname -m)" in
"Linux x86_64") arch=x64 sum=$x64 ;;
"Linux aarch64") arch=arm64 sum=$arm64 ;;
*) echo "leat: please install Node.js 22.12 or newer (https://nodejs.org), which builds the web UI" >&2 && exit 3 ;;
esac
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leat/kube
home=$cache/node-$node-npm-$npm
if [ ! -e "$home/bin/npm" ]; then
	# An npm that is too old for the UI still knows the registry of this machine.
	registry=${npm_config_registry:-$(npm config get registry 2>/dev/null || true)}
	case $registry in http*) ;; *) registry=https://registry.npmjs.org ;; esac
	echo "==> fetching node $node and npm $npm (80 MB, once)" >&2
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/fetching-XXXXXX")
	trap 'rm -rf "$work"' EXIT
	# fetch NAME VERSION SUM unpacks a package of the registry into the folder NAME.
	fetch() {
		curl -fsSL --retry 3 -o "$work/$1.tgz" "${registry%/}/$1/-/$1-$2.tgz"
		got=sha512-$(openssl dgst -sha512 -binary "$work/$1.tgz" | openssl base64 -A)
		[ "$got" = "$3" ] || { echo "leat: $1 $2 has the sum $got, want $3" >&2 && exit 1; }
		mkdir "$work/$1"
		tar -xzf "$work/$1.tgz" -C "$work/$1" --strip-components=1
		rm "$work/$1.tgz"
	}
	fetch "node-linux-$arch" $node "$sum"
	fetch npm $npm "$npmsum"
	mkdir -p "$work/home/bin"
	mv "$work/node-linux-$arch/bin/node" "$work/home/bin/node"
	mv "$work/npm" "$work/home/npm"
	for program in npm npx; do
		# By its own path, so that it runs with this node, whatever other one the PATH has.
		# shellcheck disable=SC2016 # the script expands it
		printf '#!/bin/sh\nexec "$(dirname "$0")/node" "$(dirname "$0")/../npm/bin/%s-cli.js" "$@"\n' $program >"$work/home/bin/$program"
		chmod +x "$work/home/bin/$program"
	done
	mv -T "$work/home" "$home" 2>/dev/null || [ -e "$home/bin/npm" ] # another process may have been faster
fi
echo "$home/bin"
