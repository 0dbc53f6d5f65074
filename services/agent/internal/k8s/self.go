// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import "github.com/leatdev/leat/services/agent/internal/inventory"

// Self is what the running agent is made of in its cluster. All of it stays the same while the process lives.
type Self struct {
	// Account is the agent's service account. Zero: it has none, as outside of its cluster.
	Account Account
	// Workloads are the Pod of the process and the objects that own it, such as a ReplicaSet and a Deployment.
	Workloads []inventory.Key
	// Base are the service account and the namespaces, without which the agent does not run.
	Base []inventory.Key
	// Needs are the objects that the Pod refers to, and the Secret with the agent's identity: without them its
	// successor does not start. References that may lead nowhere are left out.
	Needs []inventory.Key
	// UnknownIn is the namespace of a Pod that the agent may not read. Empty: Workloads and Needs are complete.
	UnknownIn string
}
