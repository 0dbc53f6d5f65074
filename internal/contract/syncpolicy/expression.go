// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package syncpolicy

import (
	"github.com/leatdev/leat/internal/contract/expression"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// validateExpression compiles an expression. An empty one is none.
func validateExpression(path, source string, kind expression.Kind) error {
	if source == "" {
		return nil
	}
	if _, err := expression.Compile(source, kind); err != nil {
		return fielderr.New(path, "is not an expression: %v", err)
	}
	return nil
}
