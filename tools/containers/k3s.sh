#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# The program k3s of the image of the tests. `k3s server` runs the control plane that `make kube` builds, whose nodes are simulated, and does what k3s does
# for docker-compose.yml: it writes a kubeconfig, and applies the manifests in its folder.
set -eu
[ "${1:-}" = server ] || { echo "k3s: got \"${1:-}\", want server" >&2 && exit 2; }
home=/var/lib/rancher/k3s
kubeconfig=${K3S_KUBECONFIG_OUTPUT:?k3s: set K3S_KUBECONFIG_OUTPUT}

leat-kube up --binaries /opt/kubernetes --kubelet /opt/kubernetes/kubelet.yaml --data-dir "$home/leat-kube" &
server=$!
busybox httpd -p 127.0.0.1:8080 -h /opt/kubernetes/www # what a forwarded port of a pod leads to
trap 'kill "$server"' INT TERM
until kubectl --kubeconfig "$home/leat-kube/kubeconfig" get --raw=/readyz >/dev/null 2>&1 &&
	kubectl --kubeconfig "$home/leat-kube/kubeconfig" apply --filename "$home/server/manifests"; do
	kill -0 "$server" 2>/dev/null || exit 1
	sleep 0.2
done
cp "$home/leat-kube/kubeconfig" "$kubeconfig.new" && chmod "${K3S_KUBECONFIG_MODE:-600}" "$kubeconfig.new"
mv "$kubeconfig.new" "$kubeconfig"
wait "$server" || wait "$server" # a signal ends the first one
