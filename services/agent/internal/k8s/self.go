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
	// Gap is why Workloads or Needs lack something. Nil: they are complete.
	Gap *Gap
}

// Gap is something of the running agent that the agent could not read.
type Gap struct {
	// Object is its Pod, or an owner of that. Objects of the same namespace may be a part of the agent, too.
	Object inventory.Key
	// Cause is why, in the words of the API server, which name a right that is missing.
	Cause string
}
