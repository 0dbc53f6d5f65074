// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package health judges whether objects do what they should.
//
// An object is judged by the first of these that covers its kind: the rules of its service, the
// rules of the cluster and the fleet, the package's own knowledge of Kubernetes' built-in kinds,
// and the library of rules for other projects' kinds. All other objects are judged by the
// conventions that controllers share. Users and the library write rules in the same format, see
// Compile.
//
// An object that its owner suspended is healthy, and its message names the suspension.
package health

import "fmt"

// State is the verdict on one object.
type State int

// The states, from unknown to gone.
const (
	Unknown     State = iota // not observed yet
	Healthy                  // does what it should
	Progressing              // on its way
	Degraded                 // failed, and will not recover without a change
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

// Verdict is a state and its reason. It is comparable.
type Verdict struct {
	State State
	// Message is a sentence for people, from the object's own status. It is empty for a healthy
	// object, unless that is suspended.
	Message string
}

// Sentence returns the state and its reason in words.
func (v Verdict) Sentence() string {
	if v.Message == "" {
		return v.State.String()
	}
	return v.State.String() + ": " + v.Message
}

// Counts holds the number of objects in each state.
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
