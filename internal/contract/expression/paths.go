// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"slices"

	"github.com/google/cel-go/common/ast"
)

// pathsOf returns the fields of self that an expression names, each as its names: self.a.b has the
// names a and b. A path with computed operands, such as self[key], ends before them.
func pathsOf(root ast.Expr) [][]string {
	var paths [][]string
	ast.PreOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
		var path []string
		for e.Kind() == ast.SelectKind {
			path = append(path, e.AsSelect().FieldName())
			e = e.AsSelect().Operand()
		}
		if len(path) > 0 && e.Kind() == ast.IdentKind && e.AsIdent() == self {
			slices.Reverse(path)
			paths = append(paths, path)
		}
	}))
	return paths
}

// Paths returns the fields of self that the expression names, each as its names: self.a.b has a and
// b, and also a. The caller must not change them.
func (e *Expression) Paths() [][]string { return e.paths }
