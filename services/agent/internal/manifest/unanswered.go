// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"errors"

	"github.com/leatdev/leat/internal/contract/reason"
)

// ErrUnanswered is in the chain of the error for a bundle or a configuration that the hub did not give: it does not
// answer, or it answers that asking again later helps. Nothing is wrong with the service.
var ErrUnanswered = errors.New("the hub did not give it")

// unansweredError is the problem of a service whose bundle or configuration the hub did not give.
type unansweredError struct {
	problem *reason.Problem
	cause   error // may hold when to ask again
}

// Unanswered returns the problem as an error that matches [ErrUnanswered]. Its cause may be a [backoff.RetryAfter].
func Unanswered(problem *reason.Problem, cause error) error {
	return &unansweredError{problem: problem, cause: cause}
}

// Error implements error.
func (e *unansweredError) Error() string { return e.problem.Message }

// Is implements the interface of errors.Is.
func (e *unansweredError) Is(target error) bool { return target == ErrUnanswered }

// Unwrap implements the interface of errors.As.
func (e *unansweredError) Unwrap() []error { return []error{e.problem, e.cause} }
