#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# boot.sh IMAGES: the first process of the node, in its own mounts, network, processes and host name. It starts a control plane and a node, waits until a
# Deployment can run, and then for the first of them to end, which ends all.
#
# Folders that the programs write to are the node's own, at their usual paths; so the configuration needs no paths of the machine.
set -euo pipefail
. "$(dirname "$0")/env.sh"
images=$1
pki=/run/node/pki
export KUBECONFIG=$pki/admin.kubeconfig PATH=$home/bin:$PATH

folders() {
	mount -t tmpfs tmpfs /run
	mount -t tmpfs tmpfs /var/lib
	mount --bind "$home/log" /var/log
	mkdir -p /run/node /var/lib/containerd /var/lib/kubelet /var/lib/volumes
	for folder in containerd kubelet volumes; do
		mkdir -p "$home/disk/$folder"
		mount --bind "$home/disk/$folder" "/var/lib/$folder"
	done
	cp -r "$node/conf" /run/node/conf
	# Pods may ask for mounts that pass on what is mounted later.
	mount --make-rshared /
}

# The kubelet sets these for the whole machine, which is not its own. It writes to a copy.
settings() {
	for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
		local copy=/run/node/${setting//\//-}
		cp "/proc/sys/$setting" "$copy"
		mount --bind "$copy" "/proc/sys/$setting"
	done
}

# The network leads nowhere: addresses of pods and of Services stay in it.
network() {
	hostname leat-node
	ip link set lo up
	ip link add node0 type veth peer name nowhere
	ip address add "$NODE_IP/24" dev node0
	ip link set node0 up
	ip link set nowhere up
	# A connection to a Service needs a route before its address is translated.
	ip route add default dev node0
	echo 1 >/proc/sys/net/ipv4/ip_forward
	# Programs of the node, such as the tests, find Services by name; pods get resolv.conf from the kubelet.
	printf 'nameserver 10.96.0.10\nsearch svc.cluster.local cluster.local\noptions ndots:3\n' >/run/node/resolv.conf
	mount --bind /run/node/resolv.conf /etc/resolv.conf
}

start() {
	local name=$1
	shift
	"$@" >"/var/log/$name.log" 2>&1 </dev/null &
	echo "$! $name" >>/run/node/programs
}

# until_done repeats a command until it succeeds. When a program ends meanwhile, so does this.
until_done() {
	local pid name
	until "$@" >/dev/null 2>&1; do
		while read -r pid name; do
			if ! kill -0 "$pid" 2>/dev/null; then
				echo "$name ended:"
				tail -n 10 "/var/log/$name.log"
				exit 1
			fi
		done </run/node/programs
		sleep 0.1
	done
}

control_plane() {
	start etcd etcd --data-dir /run/node/etcd --unsafe-no-fsync --log-level warn
	start kube-apiserver kube-apiserver --etcd-servers http://127.0.0.1:2379 --advertise-address "$NODE_IP" --profiling=false \
		--tls-cert-file $pki/apiserver.crt --tls-private-key-file $pki/apiserver.key --client-ca-file $pki/ca.crt \
		--kubelet-client-certificate $pki/kubelet-client.crt --kubelet-client-key $pki/kubelet-client.key --kubelet-preferred-address-types InternalIP \
		--authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged --service-cluster-ip-range 10.96.0.0/16 \
		--service-account-issuer https://kubernetes.default.svc.cluster.local \
		--service-account-key-file $pki/service-accounts.pub --service-account-signing-key-file $pki/service-accounts.key
	until_done kubectl get --raw /readyz
	start kube-controller-manager kube-controller-manager --kubeconfig $pki/kube-controller-manager.kubeconfig --use-service-account-credentials \
		--service-account-private-key-file $pki/service-accounts.key --root-ca-file $pki/ca.crt --allocate-node-cidrs=false --leader-elect=false \
		--secure-port 0 --profiling=false
	start kube-scheduler kube-scheduler --kubeconfig $pki/kube-scheduler.kubeconfig --leader-elect=false --secure-port 0 --profiling=false
}

kubelet_and_proxy() {
	start kubelet kubelet --config /run/node/conf/kubelet.yaml --kubeconfig $pki/kubelet.kubeconfig --node-ip "$NODE_IP"
	start kube-proxy kube-proxy --config /run/node/conf/kube-proxy.yaml
	until_done kubectl wait --for=condition=Ready node/leat-node --timeout=0
	# Enforces NetworkPolicies. It ends where it does not find its node.
	start kube-router env NODE_NAME=leat-node kube-router --kubeconfig $pki/admin.kubeconfig --run-router=false --run-service-proxy=false --run-firewall=true \
		--service-cluster-ip-range 10.96.0.0/16 --metrics-port 0
}

# volumes prints volumes for claims. They are of the kind "local", on which the kubelet sets the group of a pod; it does not on a hostPath.
volumes() {
	for number in $(seq 24); do
		mkdir -p "/var/lib/volumes/$number"
		sed "s/NUMBER/$number/g" "$node/conf/volume.yaml"
	done
}

folders
settings
network
"$node/pki.sh" $pki
start containerd containerd --config /run/node/conf/containerd.toml
control_plane
until_done ctr --namespace k8s.io version
ctr --namespace k8s.io images import "$images"
kubelet_and_proxy
kubectl apply -f /run/node/conf/addons.yaml
volumes | kubectl apply -f -
kubectl --namespace kube-system rollout status deployment/coredns --timeout=3m
touch "$home/ready"
wait -n || true
until_done false
