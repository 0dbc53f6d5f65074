// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package decide

// Order is what the plan wants of a service.
type Order int

// The orders.
const (
	Wait   Order = iota // its objects are in the cluster, and there is no plan yet
	Follow              // reconcile what the plan says
	Hold                // it left the plan, and the guard keeps it
	Leave               // it left the plan: remove it
)

// Action is what a unit does next.
type Action int

// The actions.
const (
	Rest    Action = iota
	Apply          // reconcile the service
	Remove         // remove the service
	Release        // hand the objects over that other services of the plan want, of a service that the guard keeps
	Preview        // compute a dry run
)

// String implements fmt.Stringer. The name is the name of the span of a run.
func (a Action) String() string {
	switch a {
	case Apply:
		return "apply"
	case Remove:
		return "remove"
	case Release:
		return "release"
	case Preview:
		return "preview"
	case Rest:
	}
	return "rest"
}
