// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"context"

	"github.com/google/cel-go/cel"
)

// budgetKey is the key of a budget in a context.
type budgetKey struct{}

// budget is the cost that the evaluations of one context have left together.
type budget struct{ left uint64 }

// WithBudget returns a context whose evaluations may cost so much together, in CEL's own unit. The
// evaluation that exceeds the budget returns ErrTooExpensive, and so does each one after it. An
// evaluation is charged when it has ended, so all of them together cost at most the budget and the
// bound of one expression. The context is for one goroutine at a time.
func WithBudget(ctx context.Context, units uint64) context.Context {
	return context.WithValue(ctx, budgetKey{}, &budget{left: units})
}

// budgetOf returns the budget of a context, or nil if the context has none.
func budgetOf(ctx context.Context) *budget {
	b, _ := ctx.Value(budgetKey{}).(*budget)
	return b
}

// isSpent reports whether nothing is left.
func (b *budget) isSpent() bool { return b != nil && b.left == 0 }

// charge subtracts the cost of an evaluation and reports whether the budget covers it. An evaluation
// without a known cost, such as one that was aborted, costs as much as one may.
func (b *budget) charge(details *cel.EvalDetails) (isCovered bool) {
	if b == nil {
		return true
	}
	cost := uint64(maxCost)
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost()
	}
	isCovered = cost <= b.left
	b.left -= min(cost, b.left)
	return isCovered
}
