// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package health judges whether objects do what they should.
//
// The rules per kind are those of kstatus, which most tools of the field share: an object is healthy when its controller
// has observed the current generation and reports the desired state as reached.
package health

import (
	"fmt"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// State is the verdict on one object.
type State int

// The states, from unknown to gone.
const (
	Unknown     State = iota // not observed yet
	Healthy                  // does what it should
	Progressing              // on its way
	Degraded                 // failed, and will not mend itself
	Terminating              // being deleted
	Missing                  // should exist and does not
)

// String implements fmt.Stringer.
func (s State) String() string {
	names := [...]string{"Unknown", "Healthy", "Progressing", "Degraded", "Terminating", "Missing"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return names[s]
}

// Verdict is a state and its reason.
type Verdict struct {
	State State
	// Message is a sentence for people, from the object's own status. Empty when healthy.
	Message string
}

// Of judges a live object. An object whose status cannot be understood is Degraded, and the message says why.
func Of(obj *unstructured.Unstructured) Verdict {
	result, err := status.Compute(obj)
	if err != nil {
		return Verdict{State: Degraded, Message: "status cannot be read: " + err.Error()}
	}
	state := stateOf(result.Status)
	if state == Healthy {
		return Verdict{State: Healthy}
	}
	return Verdict{State: state, Message: result.Message}
}

func stateOf(s status.Status) State {
	switch s {
	case status.CurrentStatus:
		return Healthy
	case status.FailedStatus:
		return Degraded
	case status.TerminatingStatus:
		return Terminating
	case status.NotFoundStatus:
		return Missing
	case status.InProgressStatus, status.UnknownStatus:
		return Progressing
	}
	return Progressing
}

// Counts counts objects by state.
type Counts struct {
	Total       int
	Healthy     int
	Progressing int // Unknown and Terminating ones included
	Failed      int // Degraded and Missing
}

// Add counts one more object.
func (c *Counts) Add(s State) {
	c.Total++
	switch s {
	case Healthy:
		c.Healthy++
	case Degraded, Missing:
		c.Failed++
	case Unknown, Progressing, Terminating:
		c.Progressing++
	}
}
