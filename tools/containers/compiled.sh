#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# compiled.sh [--others] PROGRAM...: replaces the build cache that the Dockerfile mounts by what this machine has compiled of these programs, so that the
# engine only links them. What the machine has not compiled it compiles here, where the next `make test` finds it, too. With --others the packages of Leat
# are left out, so that the engine compiles these. The Dockerfile does not know of this: Go takes an entry of its cache by the sum of everything that the
# package is compiled from, the compiler included, and compiles the packages that have none.
set -eu
others=false
[ "${1:-}" != --others ] || { others=true && shift; }
. "$(dirname "$0")/env.sh"
work=$(mktemp -d "$cache/compiled-XXXXXX")
trap 'rm -rf "$work"' EXIT
export GOWORK=off CGO_ENABLED=0 GOFLAGS='-trimpath -buildvcs=false' # as in the Dockerfile

for program; do
	module=services/$program
	[ "$program" != leat ] || module=cli
	go -C "$top/$module" list -export -deps -f '{{ if .Export }}{{ .BuildID }} {{ .Export }} {{ .ImportPath }}{{ end }}' "./cmd/$program" >>"$work/all"
done
if $others; then grep -v ' github.com/leatdev/leat/' "$work/all" >"$work/packages"; else mv "$work/all" "$work/packages"; fi
entries=$(go env GOCACHE)
find "$entries" -name '*-a' >"$work/actions"
mkdir "$work/go-build"
# A build ID begins with 15 bytes of the action's sum in base64, and the action's entry has the whole sum in base 16 as its name.
awk '
	BEGIN { digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" }
	FNR == NR {
		action = ""
		for (i = 1; i <= 20; i += 2) action = action sprintf("%03x", (index(digits, substr($1, i, 1)) - 1) * 64 + index(digits, substr($1, i + 1, 1)) - 1)
		object[action] = $2
		next
	}
	{
		name = $0
		sub(".*/", "", name)
		action = substr(name, 1, 30)
		if (action in object) print $0 "\n" object[action]
	}
' "$work/packages" "$work/actions" | sort -u | sed "s|^$entries/||" >"$work/entries"
# Links, where the cache is on the same file system.
(cd "$entries" && xargs cp -al --parents -t "$work/go-build" <"$work/entries" 2>/dev/null) ||
	(cd "$entries" && xargs cp -a --parents -t "$work/go-build" <"$work/entries")
# --no-cache has the engine mount an empty folder, which all builds after this one get.
cat >"$work/Dockerfile" <<'END'
FROM golang:1.26-bookworm
RUN --mount=type=cache,target=/root/.cache/go-build --mount=type=bind,target=/compiled cp -r /compiled/. /root/.cache/go-build/
END
build --no-cache --file "$work/Dockerfile" "$work/go-build"
# The engine has the copy that it mounted, and needs no second one.
"$docker" builder prune --force --filter type=source.local >/dev/null
