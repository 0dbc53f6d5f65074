// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// failedObjects is the error of a run in which some objects could not be dealt with.
type failedObjects struct {
	verb    string // what was tried
	objects []report.ObjectStatus
}

func (f *failedObjects) Error() string {
	first := f.objects[0]
	if len(f.objects) == 1 {
		return fmt.Sprintf("%s %s: %s", f.verb, first.Ref.Key, first.Problem.Message)
	}
	return fmt.Sprintf("%s failed for %d objects; the first is %s: %s", f.verb, len(f.objects), first.Ref.Key, first.Problem.Message)
}

// add notes that ref failed for err.
func (f *failedObjects) add(ref inventory.Ref, err error) {
	f.objects = append(f.objects, report.ObjectStatus{Ref: ref, Problem: reason.ProblemOf(err)})
}

// Unwrap returns the first failure, whose reason is the reason of all.
func (f *failedObjects) Unwrap() error { return f.objects[0].Problem }

// orNil returns f if anything failed.
func (f *failedObjects) orNil() error {
	if len(f.objects) == 0 {
		return nil
	}
	return f
}

// lasting tells problems that trying again cannot mend: the same content meets the same renderer, with the same
// configuration, and a hook runs once.
func lasting(p *reason.Problem) bool {
	switch p.Reason {
	case reason.ManifestInvalid, reason.VariableMissing, reason.PruneGuarded, reason.Unimplemented, reason.HookFailed:
		return true
	default:
		return false
	}
}
