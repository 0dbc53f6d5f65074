#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds every image by the Dockerfile, and runs test/containers with docker-compose.yml, on a Docker engine in a network of its own. Both files are used
# as they are shipped: images of other projects are made here, under the names that these files use. SERVICES are those of the compose file that are
# brought up; arguments go to the tests, such as -test.run=TestCompose. Nothing is left but the cache folder.
set -eu
. "$(dirname "$0")/env.sh"
: "${SERVICES:=redis postgres gitcache-1 gitcache-2 distributor-1 distributor-2 tunnel-1 tunnel-2 front}"

# What the next run needs: the builds of two commits, and the modules. The engine also has the images, which take 3 GB.
keep=6GB

"$here/ready.sh"
exec 9>"$cache/lock"
# The engine, its network and the stack's name exist once.
flock --nonblock 9 || { echo "==> waiting for another run to end" && flock 9; }
started=$(date +%s)
step() { printf '==> [%4ds] %s\n' $(($(date +%s) - started)) "$*"; }

step "programs"
compose=$("$here/programs.sh" compose)
tests=$cache/containers.test
go -C "$top/test" test -vet=off -c -o "$tests" ./containers
step "engine"
"$here/engine.sh" up 9>&-
trap '"$here/engine.sh" down' EXIT
trap 'exit 1' INT TERM
step "images of other projects"
"$here/images.sh" golang nodejs debian redis postgres nginx k3s otelcol jaeger prometheus
step "what this machine has compiled"
"$here/compiled.sh" gitcache distributor tunnel agent leat
revision=$(git -C "$top" rev-parse HEAD)
# image makes an image by the Dockerfile.
image() {
	name=$(own "$1")
	shift
	step "image $name"
	build --build-arg "REVISION=$revision" --tag "$name" "$@" "$top"
}
for service in gitcache distributor tunnel agent; do image "$service" --build-arg "SERVICE=$service"; done
image leat --target cli
image demo-git --target demo-git
step "test/containers with $SERVICES"
cd "$top/test/containers"
failed=0
LEAT_CONTAINERS_DOCKER=$docker LEAT_CONTAINERS_COMPOSE=$compose LEAT_CONTAINERS_SERVICES=$SERVICES \
	inside "$tests" -test.v -test.parallel=8 -test.timeout=45m "$@" 9>&- || failed=1
# Of what builds leave behind, the bytes that were used last stay, so that the folder does not grow with each run.
"$docker" image prune --force >/dev/null
"$docker" builder prune --force --keep-storage "$keep" >/dev/null
trap - EXIT
"$here/engine.sh" down
"$here/engine.sh" ended || failed=1
step "done"
exit $failed
