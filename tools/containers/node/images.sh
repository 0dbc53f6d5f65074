#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# images.sh: builds the images of Leat by the Dockerfile, and those of other projects, on the engine, and prints the path of an archive with all of them.
# They have the names that the charts and the command line of this checkout use. The engine runs only meanwhile, because `make containers` uses it as well,
# and not at all if the archive of the last run was made of the same files.
set -euo pipefail
. "$(dirname "$0")/env.sh"
services=(gitcache distributor tunnel agent)
other=$IMAGE_REPOSITORY/agent:$LEAT_OTHER_VERSION
others=(redis:7.4-alpine postgres:17-alpine busybox:1.37 leat.test/pause:1 leat.test/coredns:1)

engine() {
	exec 9>"$cache/lock"
	flock --nonblock 9 || { echo "==> waiting until make containers has ended" >&2 && flock 9; }
	"$here/engine.sh" up 9>&-
	trap '"$here/engine.sh" down' EXIT
	trap 'exit 1' INT TERM
}

build() {
	local service
	"$here/images.sh" golang nodejs redis postgres busybox pause coredns
	"$here/compiled.sh" "${services[@]}"
	for service in "${services[@]}"; do
		"$docker" build --quiet --build-arg "SERVICE=$service" --build-arg "REVISION=$(git -C "$top" rev-parse HEAD)" --tag "$(own "$service")" "$top"
	done
	"$docker" build --quiet --build-arg SERVICE=agent --build-arg "VERSION=$LEAT_OTHER_VERSION" --tag "$other" "$top"
}

# inputs prints a sum of what the images are made of: files of this checkout, and programs of this machine.
inputs() {
	{
		cd "$top"
		git ls-files -z --cached --others --exclude-standard -- Dockerfile .dockerignore deploy/image{,s.env} gen internal render services web ':!*_test.go' ':!web/e2e' ':!web/test' \
			tools/node.sh tools/containers/{images,postgres-start,programs,root}.sh tools/containers/node/{env.sh,images.sh,wget.sh,coredns,kubernetes} |
			xargs -0 sha256sum
		go version
		sha256sum /usr/bin/redis-server /usr/lib/postgresql/*/bin/postgres /bin/busybox /bin/dash /usr/bin/curl /bin/nc.openbsd
	} | sha256sum
}

archive() {
	local images=("${services[@]/%/:$IMAGE_TAG}")
	"$docker" save --output "$home/images.tar" "${images[@]/#/$IMAGE_REPOSITORY/}" "$other" "${others[@]}"
}

mkdir -p "$home"
made=$(inputs)
if ! [ -e "$home/images.tar" ] || [ "$(cat "$home/images" 2>/dev/null)" != "$made" ]; then
	rm -f "$home/images"
	engine
	build >&2
	archive
	trap - EXIT
	"$here/engine.sh" down
	"$here/engine.sh" ended
	echo "$made" >"$home/images"
fi
echo "$home/images.tar"
