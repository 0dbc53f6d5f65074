#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# Starts a real Kubernetes node in namespaces of its own, with images that the Dockerfile makes, and runs test/node on it: the charts are installed as they
# are shipped. Arguments go to the tests, such as -test.run=TestFirstCluster. Nothing is left but the cache folder.
set -euo pipefail
. "$(dirname "$0")/env.sh"

# As in the Makefile: what was compiled in one checkout serves every other one.
export GOFLAGS=${GOFLAGS:--trimpath} CGO_ENABLED=0
started=$SECONDS
step() { printf '==> [%4ds] %s\n' $((SECONDS - started)) "$*"; }

# programs fills the folder that the node has first in its PATH.
programs() {
	local built name
	mkdir -p "$home/bin"
	built=$(go -C "$top" run ./internal/runtime/localkube/cmd/leat-kube build --helm)
	for name in kubelet kube-proxy kube-router; do built+=$'\n'$("$here/programs.sh" "$name"); done
	while read -r name; do ln -sfn "$name" "$home/bin/"; done <<<"$built"
	go -C "$top" build -o "$home/bin/leat" ./cli/cmd/leat
}

"$here/ready.sh" node
mkdir -p "$home"
exec 8>"$home/lock"
flock --nonblock 8 || { echo "leat: make node is running already" >&2 && exit 1; }
step "programs"
programs 8>&-
go -C "$top/test" test -vet=off -c -o "$home/node.test" ./node 8>&-
step "images"
images=$("$node/images.sh" 8>&-)
step "node"
trap '"$node/node.sh" down' EXIT
trap 'exit 1' INT TERM
"$node/node.sh" up "$images" 8>&-
step "test/node"
cd "$top/test/node"
failed=0
"$node/node.sh" enter env LEAT_NODE="$NODE_IP" "$home/node.test" -test.v -test.timeout=30m -test.parallel=8 "$@" 8>&- || failed=1
trap - EXIT
"$node/node.sh" down
"$node/node.sh" ended || failed=1
step "done"
exit $failed
