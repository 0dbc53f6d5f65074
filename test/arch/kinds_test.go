// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/fleetdoc"
)

// spine is the package of the kinds of objects.
const spine = "services/distributor/internal/spine/catalog/"

// TestKindsAnswerForThemselves refuses switches over the kinds of objects, or over their types, outside of the package
// of the kinds. A switch forgets a new kind without a word; a method of catalog.Object does not compile without it, and
// a table by kind has a test that asks for every kind.
func TestKindsAnswerForThemselves(t *testing.T) {
	t.Parallel()
	folder, read := root(t), 0
	types := map[string]bool{} // of objects, such as Cluster
	for _, kind := range fleetdoc.Names() {
		types[kind] = true
	}
	for _, name := range filter(trackedFiles(t), ".go") {
		if !strings.HasPrefix(name, "services/distributor/") || strings.HasPrefix(name, spine) || strings.HasSuffix(name, "_test.go") {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, filepath.Join(folder, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		read++
		ast.Inspect(file, func(node ast.Node) bool {
			if body := bodyOfSwitch(node); body != nil && kindsIn(body, types) > 1 {
				t.Errorf("%s switches over kinds: make it a method of catalog.Object, or a table by kind with a test that asks for each", files.Position(node.Pos()))
			}
			return true
		})
	}
	if read < 200 {
		t.Errorf("read %d files; the paths of this test are out of date", read)
	}
}

func bodyOfSwitch(node ast.Node) *ast.BlockStmt {
	switch s := node.(type) {
	case *ast.SwitchStmt:
		return s.Body
	case *ast.TypeSwitchStmt:
		return s.Body
	}
	return nil
}

// kindsIn counts the cases of a switch that name a kind: catalog.KindCluster, or *catalog.Cluster.
func kindsIn(body *ast.BlockStmt, types map[string]bool) (n int) {
	for _, statement := range body.List {
		clause, _ := statement.(*ast.CaseClause)
		for _, expression := range clause.List {
			ast.Inspect(expression, func(node ast.Node) bool {
				selector, ok := node.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				from, _ := selector.X.(*ast.Ident)
				if name := selector.Sel.Name; from != nil && from.Name == "catalog" && types[strings.TrimPrefix(name, "Kind")] {
					n++
				}
				return false
			})
		}
	}
	return n
}
