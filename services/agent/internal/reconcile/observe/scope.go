// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// Scope is the part of the cluster in which one watch observes a kind, and the account as which it
// does. The zero Scope is the whole cluster, as the agent itself.
//
// A watch of a Scope observes the objects of the services of that account alone. It says nothing
// about other services, whose objects may be in the same namespace.
type Scope struct {
	Account   k8s.Account
	Namespace string // empty: all
}

// Collection is what one watch observes: objects of a kind with Leat's label.
type Collection struct {
	Kind  schema.GroupVersionKind
	Scope Scope
}
