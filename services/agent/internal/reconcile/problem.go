// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/order"
	"github.com/leatdev/leat/services/agent/internal/render"
)

// Reason says why something failed, in the words of Leat's closed list.
type Reason string

// The reasons that a reconciliation can fail for.
const (
	ManifestInvalid    Reason = "MANIFEST_INVALID"
	RenderLimit        Reason = "RENDER_LIMIT"
	ApplyRejected      Reason = "APPLY_REJECTED"
	ApplyConflict      Reason = "APPLY_CONFLICT"
	HealthTimeout      Reason = "HEALTH_TIMEOUT"
	PruneGuarded       Reason = "PRUNE_GUARDED"
	BundleUnavailable  Reason = "BUNDLE_UNAVAILABLE"
	ObjectClaimed      Reason = "OBJECT_CLAIMED"
	DriftDetected      Reason = "DRIFT_DETECTED"
	ObjectUnmanaged    Reason = "OBJECT_UNMANAGED"
	TenantForbidden    Reason = "TENANT_FORBIDDEN"
	VariableMissing    Reason = "VARIABLE_MISSING"
	HookFailed         Reason = "HOOK_FAILED"
	ClusterUnreachable Reason = "CLUSTER_UNREACHABLE"
	DeadlineExceeded   Reason = "DEADLINE_EXCEEDED"
	// DependencyUnavailable means that the hub did not give the configuration.
	DependencyUnavailable Reason = "DEPENDENCY_UNAVAILABLE"
	// DependencyNotReady means that the service waits for another, or for an object.
	DependencyNotReady Reason = "DEPENDENCY_NOT_READY"
	// SyncWindowClosed means that the service waits for its next window.
	SyncWindowClosed Reason = "SYNC_WINDOW_CLOSED"
	// TestFailed means that everything is healthy, and a test failed.
	TestFailed Reason = "TEST_FAILED"
	// Unsupported means that the service's policy comes from a newer hub.
	Unsupported Reason = "UNIMPLEMENTED"
	Internal    Reason = "INTERNAL"
)

// Problem is a failure that a person reads. It never holds an object's data.
type Problem struct {
	Reason  Reason
	Message string
}

// Error implements error.
func (p *Problem) Error() string {
	return p.Message
}

func problemf(reason Reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Sentinels that a Cluster answers with.
var (
	// ErrNotFound means that the cluster has no such object.
	ErrNotFound = errors.New("object not found")
	// ErrReplaced means that the object under that name is not the one with the given UID.
	ErrReplaced = errors.New("object was replaced by another of the same name")
)

// failedObjects is the error of a run in which some objects could not be dealt with.
type failedObjects struct {
	verb    string // what was tried
	objects []ObjectStatus
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
	f.objects = append(f.objects, ObjectStatus{Ref: ref, Problem: ProblemOf(err)})
}

// orNil returns f if anything failed.
func (f *failedObjects) orNil() error {
	if len(f.objects) == 0 {
		return nil
	}
	return f
}

// ProblemOf makes a problem of any error that a step can return.
func ProblemOf(err error) *Problem {
	if problem, ok := errors.AsType[*Problem](err); ok {
		return &Problem{Reason: problem.Reason, Message: err.Error()}
	}
	if failed, ok := errors.AsType[*failedObjects](err); ok {
		return &Problem{Reason: failed.objects[0].Problem.Reason, Message: err.Error()}
	}
	if _, ok := errors.AsType[*render.LimitError](err); ok {
		return &Problem{Reason: RenderLimit, Message: err.Error()}
	}
	if _, ok := errors.AsType[*render.VariableError](err); ok {
		return &Problem{Reason: VariableMissing, Message: err.Error()}
	}
	if _, ok := errors.AsType[*order.Error](err); ok {
		return &Problem{Reason: ManifestInvalid, Message: err.Error()}
	}
	if _, ok := errors.AsType[*render.Error](err); ok {
		return &Problem{Reason: ManifestInvalid, Message: err.Error()}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &Problem{Reason: DeadlineExceeded, Message: err.Error()}
	}
	return &Problem{Reason: Internal, Message: err.Error()}
}

// lasting tells problems that trying again cannot mend: the same content meets the same renderer, with the same
// configuration, and a hook runs once.
func lasting(p *Problem) bool {
	switch p.Reason {
	case ManifestInvalid, VariableMissing, PruneGuarded, Unsupported, HookFailed:
		return true
	default:
		return false
	}
}
