// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
)

// Causes of an EvalError. The caller decides whether a missing field is a failure or a valid answer.
var (
	// ErrMissing means that the object has no field, key or item that the expression reads.
	ErrMissing = errors.New("the object has no such field")
	// ErrType means that a value, or the result, is not of the type that the expression needs.
	ErrType = errors.New("a value has another type than the expression expects")
	// ErrArithmetic means that a calculation has no result.
	ErrArithmetic = errors.New("a calculation overflows, or divides by zero")
	// ErrValue means that a function does not accept a value, such as a text that is not a number.
	ErrValue = errors.New("a function does not accept a value that it is given")
	// ErrTooExpensive means that the evaluation was aborted for its cost.
	ErrTooExpensive = errors.New("the expression costs too much")
)

// EvalError reports how an evaluation failed, and where. Its text is a position and the sentence of
// its Cause. CEL's own text is not part of it, because CEL quotes operands: an error would show its
// reader what only the evaluation may read.
type EvalError struct {
	// Line and Column point into the source, from 1. They are 0 if CEL does not report where it failed.
	Line, Column int
	// Cause is ErrMissing, ErrType, ErrArithmetic, ErrValue or ErrTooExpensive.
	Cause error
}

// Error implements error.
func (e *EvalError) Error() string {
	if e.Line == 0 {
		return e.Cause.Error()
	}
	return fmt.Sprintf("line %d, column %d: %v", e.Line, e.Column, e.Cause)
}

// Unwrap returns the cause.
func (e *EvalError) Unwrap() error { return e.Cause }

// classify maps the errors of CEL to this package's.
func (e *Expression) classify(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	failed := &EvalError{Cause: causeOf(err)}
	if where, ok := errors.AsType[*types.Err](err); ok && !isShared(where) {
		if at := e.positions.GetStartLocation(where.NodeID()); at.Line() > 0 {
			failed.Line, failed.Column = at.Line(), at.Column()+1
		}
	}
	return failed
}

// isShared reports whether CEL returns this very error for every failure of its kind. Such an error
// has the position of the first one, possibly in another expression.
func isShared(err *types.Err) bool {
	return err == types.NoSuchOverloadErr() || err.Error() == "timestamp overflow"
}

// causes are the beginnings of CEL's texts, which are all that tells its errors apart. The texts of
// a conversion quote the value after the beginning.
var causes = []struct {
	cause      error
	beginnings []string
}{
	{ErrMissing, []string{
		"no such key", "no such field", "no such attribute", "undeclared reference", "index out of bounds", "index out of range",
		"optional.none() dereference",
	}},
	{ErrType, []string{"no such overload", "unsupported conversion", "unsupported type", "unexpected type"}},
	{ErrArithmetic, []string{
		"division by zero", "modulus by zero", "divide by zero", "integer overflow", "unsigned integer overflow", "duration overflow",
		"timestamp overflow",
	}},
}

func causeOf(err error) error {
	if cancelled, ok := errors.AsType[interpreter.EvalCancelledError](err); ok && cancelled.Cause == interpreter.CostLimitExceeded {
		return ErrTooExpensive
	}
	words := err.Error()
	for _, one := range causes {
		for _, beginning := range one.beginnings {
			if strings.HasPrefix(words, beginning) {
				return one.cause
			}
		}
	}
	return ErrValue
}
