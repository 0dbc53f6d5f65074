// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// Change is the effect of a run on an object.
type Change int

// The changes.
const (
	Adopt Change = iota + 1 // its content stays, and it becomes the service's
	Create
	Update
	Delete
	Impossible // the cluster would refuse it
	Unchanged  // it stays as it is, and has ignored fields that differ
)

// Difference is the effect of a run on one object.
type Difference struct {
	Ref    inventory.Ref
	Change Change
	// Unified is a unified diff of the object's YAML. Values of Secrets, and values that contain a
	// secret of the service's configuration, are masked. Empty: the change is Impossible.
	Unified string
	// Problem is the obstacle to the change. Nil: none is known.
	Problem *reason.Problem
	// Fields are the fields that an Update would change, and Ignored those that are left to others, in
	// which the object differs from its manifest. Their values are masked like Unified. Omitted and
	// IgnoredOmitted count what is beyond the bounds.
	Fields, Ignored         []fields.Difference
	Omitted, IgnoredOmitted int
}

// DryRun is the expected effect of a run. It is an immutable value.
type DryRun struct {
	// Unchanged counts the objects to adopt, too.
	Created, Updated, Deleted, Unchanged int
	// Changes are the first changes, at most MaxDryRunChanges, deletions first and adoptions last.
	Changes []DryRunChange
}

// DryRunChange is the effect of a run on one object.
type DryRunChange struct {
	Ref    inventory.Ref
	Change Change
}

// Event is a change of a service or of one of its objects, for people who watch.
type Event struct {
	Time    time.Time
	Service string
	Phase   Phase          // of the service after the event
	Object  *inventory.Ref // nil: the event concerns the service
	Message string
}
