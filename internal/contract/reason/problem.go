// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"context"
	"errors"
	"fmt"
)

// Problem is a failure for people to read: a reason for programs and one sentence of advice. It is
// an error, and an immutable value. It never holds secrets or the data of an object.
type Problem struct {
	Reason  Reason
	Message string
}

// Errorf returns a problem with a formatted message.
func Errorf(r Reason, format string, args ...any) *Problem {
	return &Problem{Reason: r, Message: fmt.Sprintf(format, args...)}
}

// Error implements error.
func (p *Problem) Error() string { return p.Message }

// Equal reports whether both are nil, or have the same reason and message.
func (p *Problem) Equal(other *Problem) bool {
	if p == nil || other == nil {
		return p == other
	}
	return *p == *other
}

// ReasonedError is an error of a type that implies its reason.
type ReasonedError interface {
	error
	Reason() Reason
}

// ProblemOf returns err as a problem: with the reason of the first *Problem or ReasonedError in its
// chain, and with the text of the whole chain. An exceeded deadline is DeadlineExceeded, any other
// error Internal.
func ProblemOf(err error) *Problem {
	problem, isProblem := errors.AsType[*Problem](err)
	reasoned, isReasoned := errors.AsType[ReasonedError](err)
	switch {
	case isProblem:
		return &Problem{Reason: problem.Reason, Message: err.Error()}
	case isReasoned:
		return &Problem{Reason: reasoned.Reason(), Message: err.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		return &Problem{Reason: DeadlineExceeded, Message: err.Error()}
	default:
		return &Problem{Reason: Internal, Message: err.Error()}
	}
}
