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
type budget struct {
	left uint64
	// outer is the budget of the context that this one was made from, or nil.
	outer *budget
}

// WithBudget returns a context whose evaluations may cost so much together, in CEL's own unit. They are
// also charged to the budget that ctx has. The evaluation that exceeds one of them returns
// ErrTooExpensive, and so does each one after it. An evaluation is charged when it has ended, so all of
// them together cost at most the budget and the bound of one expression. The context is for one
// goroutine at a time.
func WithBudget(ctx context.Context, units uint64) context.Context {
	return context.WithValue(ctx, budgetKey{}, &budget{left: units, outer: budgetOf(ctx)})
}

// IsSpent reports whether nothing is left of the budget of a context, or of one around it. A caller with
// several budgets thereby finds out which of them an evaluation exceeded.
func IsSpent(ctx context.Context) bool { return budgetOf(ctx).isSpent() }

// budgetOf returns the budget of a context, or nil if the context has none.
func budgetOf(ctx context.Context) *budget {
	b, _ := ctx.Value(budgetKey{}).(*budget)
	return b
}

// isSpent reports whether nothing is left.
func (b *budget) isSpent() bool { return b != nil && (b.left == 0 || b.outer.isSpent()) }

// costOf returns the cost of an evaluation. One without a known cost, such as one that was aborted, costs
// as much as it may.
func costOf(details *cel.EvalDetails, limit uint64) uint64 {
	if details != nil && details.ActualCost() != nil {
		return *details.ActualCost()
	}
	return limit
}

// charge subtracts the cost of an evaluation and reports whether the budgets cover it.
func (b *budget) charge(cost uint64) (isCovered bool) {
	isCovered = true
	for ; b != nil; b = b.outer {
		isCovered = isCovered && cost <= b.left
		b.left -= min(cost, b.left)
	}
	return isCovered
}
