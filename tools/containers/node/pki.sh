#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# pki.sh FOLDER: makes the node's authority, a certificate and a kubeconfig for each component, and the key that signs tokens of service accounts.
set -euo pipefail
. "$(dirname "$0")/env.sh"
mkdir -p "$1"
cd "$1"

# key makes a private key. It has a file of its own, because `openssl req` cannot make one of this kind in version 1.1.
key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key"; }

authority() {
	key ca
	openssl req -x509 -key ca.key -out ca.crt -days 2 -subj /CN=leat-node -addext keyUsage=critical,keyCertSign
}

# certificate NAME SUBJECT [NAMES] makes a certificate for a client and, with the names that it then has, for a server.
certificate() {
	local extensions="keyUsage=critical,digitalSignature"$'\n'"extendedKeyUsage=clientAuth${3:+,serverAuth$'\n'subjectAltName=$3}"
	key "$1"
	openssl req -new -key "$1.key" -subj "$2" |
		openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out "$1.crt" -extfile <(echo "$extensions") 2>/dev/null
}

# component NAME SUBJECT makes a certificate and the kubeconfig that uses it.
component() {
	certificate "$1" "$2"
	cat >"$1.kubeconfig" <<-END
		apiVersion: v1
		kind: Config
		clusters: [{ name: node, cluster: { server: "https://$NODE_IP:6443", certificate-authority: "$PWD/ca.crt" } }]
		users: [{ name: component, user: { client-certificate: "$PWD/$1.crt", client-key: "$PWD/$1.key" } }]
		contexts: [{ name: node, context: { cluster: node, user: component } }]
		current-context: node
	END
}

authority
certificate apiserver /CN=kube-apiserver "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,IP:10.96.0.1,IP:$NODE_IP"
certificate kubelet-client /O=system:masters/CN=kube-apiserver
component admin /O=system:masters/CN=admin
component kube-controller-manager /CN=system:kube-controller-manager
component kube-scheduler /CN=system:kube-scheduler
component kube-proxy /CN=system:kube-proxy
component kubelet "/O=system:nodes/CN=system:node:leat-node"
key service-accounts
openssl pkey -in service-accounts.key -pubout -out service-accounts.pub
