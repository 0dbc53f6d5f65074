// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package expression evaluates CEL expressions about Kubernetes objects: health rules, conditions
// of dependencies, gates.
//
// An expression sees one variable, self, which is the whole object. Besides CEL's standard library
// it may use optional values, the extensions for strings, lists, sets, numbers, encodings, regular
// expressions, bindings and comprehensions over two variables, Kubernetes' quantities, and short
// words for conditions: self.isTrue('Ready'), self.isFalse('Ready'), self.reason('Ready'),
// self.message('Ready') and self.condition('Ready').
//
// The author of an expression may have no right to read the object. So errors of an evaluation
// repeat nothing of the object, and no expression sees the content of a Secret.
//
// A process compiles and evaluates expressions on all of its processors except one, so that other work
// does not wait for them; see turns.
package expression

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Kind is the type of an expression's result.
type Kind int

// The kinds.
const (
	Bool Kind = iota + 1 // true or false, see Expression.Holds
	Text                 // a text, see Expression.Text
)

// String implements fmt.Stringer.
func (k Kind) String() string {
	switch k {
	case Bool:
		return "true or false"
	case Text:
		return "a text"
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// environment compiles every expression. Making it takes milliseconds and a third of a mebibyte, so
// it is made when the first expression needs it, and never changes.
var environment = sync.OnceValues(newEnvironment)

// Compile checks and compiles source. Errors are *CompileError.
func Compile(source string, kind Kind) (*Expression, error) {
	return CompileWithin(source, kind, maxCost)
}

// CompileWithin is Compile for an expression whose evaluation may cost at most so much in CEL's own
// unit, which is less than other expressions may.
func CompileWithin(source string, kind Kind, limit uint64) (*Expression, error) {
	if strings.TrimSpace(source) == "" {
		return nil, &CompileError{Line: 1, Column: 1, Message: "the expression is empty"}
	}
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("make CEL environment: %w", err)
	}
	_ = everyones.take(context.Background()) // turns are short, and this context does not end
	defer everyones.end()
	checked, issues := env.Compile(source)
	if issues.Err() != nil {
		return nil, explain(issues)
	}
	if !produces(checked.OutputType(), kind) {
		return nil, &CompileError{
			Line: 1, Column: 1, Message: fmt.Sprintf("the expression makes %s, and should make %s", checked.OutputType(), kind),
		}
	}
	limit = min(limit, maxCost)
	program, err := env.Program(checked,
		cel.EvalOptions(cel.OptOptimize), cel.CostLimit(limit), cel.InterruptCheckFrequency(interruptEvery))
	if err != nil {
		return nil, &CompileError{Line: 1, Column: 1, Message: err.Error()}
	}
	native := checked.NativeRep()
	return &Expression{
		source: source, kind: kind, limit: limit, program: program, positions: native.SourceInfo(),
		paths: pathsOf(native.Expr()), reads: readsOf(native.Expr()),
	}, nil
}

// produces reports whether a value of type t can be of kind. Fields of an object have no static
// type.
func produces(t *cel.Type, kind Kind) bool {
	switch t.Kind() {
	case types.DynKind, types.AnyKind:
		return true
	case types.BoolKind:
		return kind == Bool
	case types.StringKind:
		return kind == Text
	default:
		return false
	}
}

// String returns the source.
func (e *Expression) String() string {
	return e.source
}

// Holds reports whether a Bool expression is true for the object, which it does not change. Errors
// are *EvalError, or ctx's own.
func (e *Expression) Holds(ctx context.Context, object map[string]any) (bool, error) {
	value, err := e.eval(ctx, object, Bool)
	if err != nil {
		return false, err
	}
	holds, ok := value.Value().(bool)
	if !ok {
		return false, &EvalError{Line: 1, Column: 1, Cause: ErrType}
	}
	return holds, nil
}

// Text returns the text that a Text expression produces for the object. It returns the errors of
// Holds.
func (e *Expression) Text(ctx context.Context, object map[string]any) (string, error) {
	value, err := e.eval(ctx, object, Text)
	if err != nil {
		return "", err
	}
	text, ok := value.Value().(string)
	if !ok {
		return "", &EvalError{Line: 1, Column: 1, Cause: ErrType}
	}
	return text, nil
}

func (e *Expression) eval(ctx context.Context, object map[string]any, kind Kind) (ref.Val, error) {
	if e.kind != kind {
		return nil, &EvalError{Line: 1, Column: 1, Cause: ErrType}
	}
	left := budgetOf(ctx)
	if left.isSpent() {
		return nil, &EvalError{Cause: ErrTooExpensive}
	}
	key, isRemembering := e.keyOf(object)
	if known, ok := e.remembered(key, isRemembering); ok {
		if !left.charge(known.cost) {
			return nil, &EvalError{Cause: ErrTooExpensive}
		}
		return known.value, nil
	}
	visible := withoutSecrets(object)
	if err := everyones.take(ctx); err != nil {
		return nil, err
	}
	defer everyones.end()
	value, details, err := e.program.ContextEval(ctx, map[string]any{self: visible})
	cost := costOf(details, e.limit)
	isCovered := left.charge(cost)
	switch {
	case err != nil:
		return nil, e.classify(ctx, err)
	case !isCovered:
		return nil, &EvalError{Cause: ErrTooExpensive}
	}
	if isRemembering {
		e.memory.keep(key, result{value: value, cost: cost})
	}
	return value, nil
}
