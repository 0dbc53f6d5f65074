// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"errors"
	"fmt"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
)

var (
	// ErrUnknownRepository means that no repository of that name is known.
	ErrUnknownRepository = errors.New("unknown repository")
	// ErrRefNotFound is matched by every [*RefError].
	ErrRefNotFound = errors.New("ref not found")
	// ErrNotReady is matched by every [*NotReadyError].
	ErrNotReady = errors.New("repository has not been fetched yet")
	// ErrNoMirror means that the disk holds no readable mirror of the repository.
	ErrNoMirror = errors.New("no mirror on disk")
	// ErrEpochStale means that a newer owner exists: the writer must step down.
	ErrEpochStale = errors.New("epoch is stale")
	// ErrResumeExpired means that events after a resume token are no longer known completely.
	ErrResumeExpired = errors.New("resume token has expired")
	// ErrNotOwner means that this replica does not own the repository.
	ErrNotOwner = errors.New("not the owner of the repository")
	// ErrOwnershipLost means that another replica takes this one for the owner of the repository,
	// and it is not.
	ErrOwnershipLost = errors.New("the repository has another owner")
	// ErrNoAnswer means that another replica could not be reached, or could not answer.
	ErrNoAnswer = errors.New("replica does not answer")
	// ErrDependency is matched by failures of what replicas share (Redis): trying again later can
	// help.
	ErrDependency = errors.New("shared store does not answer")
)

// NotReadyError means that a repository delivers nothing yet. It matches [ErrNotReady].
type NotReadyError struct {
	Repository string
	Problem    *Problem // why its fetches fail; nil while the first one is under way
	// Unverified: there is content, and the repository's verification is being applied to it.
	Unverified bool
}

// Error implements error.
func (e *NotReadyError) Error() string {
	if e.Problem == nil {
		return fmt.Sprintf("%v: %q", ErrNotReady, e.Repository)
	}
	return fmt.Sprintf("%v: %q: %s", ErrNotReady, e.Repository, e.Problem.Message)
}

// Is makes errors.Is(err, ErrNotReady) true.
func (e *NotReadyError) Is(target error) bool { return target == ErrNotReady }

// FieldError means that a field of a definition cannot be used.
type FieldError struct {
	Field   string // path within the definition, such as "credential.ssh.private_key"
	Message string // a sentence for a person, without secrets
}

// Error implements error.
func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

// UpstreamError is a failed fetch, as an [Upstream] reports it.
type UpstreamError struct {
	Reason reason.Reason
	// Message is a sentence for a person with advice, without secrets.
	Message string
	// RetryAfter is how long the upstream asks to be left alone. Zero: it does not.
	RetryAfter time.Duration
	// Cause is for the log; it must hold no secrets either. May be nil.
	Cause error
}

// Error implements error.
func (e *UpstreamError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("%s: %s", e.Reason, e.Message)
	}
	return fmt.Sprintf("%s: %s: %v", e.Reason, e.Message, e.Cause)
}

// Unwrap returns the cause.
func (e *UpstreamError) Unwrap() error { return e.Cause }

// Problem is a failure as a state: it lasts until a fetch succeeds.
type Problem struct {
	Reason  reason.Reason `json:"reason"`
	Message string        `json:"message"`
	Since   time.Time     `json:"since"`
}

// ProblemOf returns the problem that an error is. A problem that lasts keeps its beginning.
func ProblemOf(err error, before *Problem, now time.Time) *Problem {
	p := &Problem{
		Reason:  reason.Internal,
		Message: "The fetch failed for a reason inside Leat; see the log of the owning replica.",
		Since:   now,
	}
	if upstream, ok := errors.AsType[*UpstreamError](err); ok {
		p.Reason, p.Message = upstream.Reason, upstream.Message
	}
	if before != nil && before.Reason == p.Reason {
		p.Since = before.Since
	}
	return p
}
