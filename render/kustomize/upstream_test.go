// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kustomize_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/internal/testkit/golden"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/rendertest"
)

// ownDifferences are the tests of kustomize whose result is another one here on purpose, with the
// reason.
var ownDifferences = func() map[string]string {
	const (
		spelling  = "a key is written with other capitals, such as `fieldref`; Leat refuses it, and names the right spelling"
		noVersion = "an object has no apiVersion; Leat refuses it, as an API server would"
	)
	return map[string]string{
		"TestBasicVariableRef": spelling, "TestDeploymentAnnotations": spelling, "TestIntermediateNameSecretKeyRefDiamond": spelling,
		"TestIssue3377": spelling, "TestIssue3449": spelling, "TestSimpleServicePortVarReplace": spelling,
		"TestVarPropagatesUp": spelling, "TestVarRefBig": spelling, "TestVariableRefIngressBasic": spelling,
		"TestVariableRefIngressOverlay": spelling, "TestVariableRefNFSServer": spelling, "TestVariablesAmbiguousWorkaround": spelling,
		"TestVariablesDisambiguatedWithNamespace": spelling, "TestVaribaleRefDifferentPrefix": spelling,
		"TestTransfomersImageCustomConfig": noVersion, "TestTransfomersImageDefaultConfig": noVersion,
		"TestNameReferenceDeploymentIssue3489": "a path leads out of the folder, which is the root of the test's file system",
	}
}()

// TestEqualOnKustomizesOwnTests repeats what kustomize's own tests do: the module that Leat links
// brings them, each with files and the result that the library of that version makes of them. Tests
// that are more than files, a build and its result are left out. None of it is in this repository.
func TestEqualOnKustomizesOwnTests(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(rendertest.Module(t, "sigs.k8s.io/kustomize/api"), "krusty")
	cases := readKrusty(t, folder)
	if len(cases) < 150 {
		t.Fatalf("got %d builds in %s, want at least 150: its tests are written in another way", len(cases), folder)
	}
	equal, refused, rows := 0, 0, []string{}
	for _, c := range cases {
		problem := c.compare(t)
		reason, isKnown := ownDifferences[c.name]
		switch {
		case problem == "" && isKnown:
			t.Errorf("%s is equal; it is listed as different: %s", c.name, reason)
		case problem != "" && !isKnown:
			t.Errorf("%s: %s", c.name, problem)
		case isKnown:
			rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", c.name, reason))
		case c.fails:
			refused++
		default:
			equal++
		}
	}
	slices.Sort(rows)
	golden.AssertSection(t, "../../../docs/guides/renderers/kustomizations.md", "own tests", fmt.Appendf(nil,
		"Of %d builds in these tests, %d make equal objects, %d are refused by both, and %d differ:\n\n| test | why Leat's result is another one |\n|---|---|\n%s",
		len(cases), equal, refused, len(rows), strings.Join(slices.Compact(rows), "")))
}

// krustyCase is one build of a test of kustomize.
type krustyCase struct {
	name   string // of the test
	files  map[string][]byte
	folder string
	want   string // the objects; empty if none are compared
	fails  bool   // the build is refused
}

// compare builds the case with Leat, and returns the difference, or "". The order of objects is not
// compared: these tests switch sorting off.
func (c krustyCase) compare(t *testing.T) string {
	t.Helper()
	built, err := build(t, render.NewFiles(c.files), c.folder)
	if c.fails || err != nil {
		if c.fails == (err != nil) {
			return ""
		}
		return fmt.Sprintf("got %v, want failure %v", err, c.fails)
	}
	var got, want []any
	for _, o := range built {
		got = append(got, o.Object)
	}
	for document := range strings.SplitSeq("\n"+c.want, "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document+"\n"), &object); err != nil {
			return fmt.Sprintf("the expected result cannot be read: %v", err)
		}
		if items, isList := object["items"].([]any); isList { // Leat replaces lists by their items
			want = append(want, items...)
		} else if object != nil {
			want = append(want, object)
		}
	}
	return cmp.Diff(sorted(t, want), sorted(t, got))
}

// sorted returns objects as texts in an order of their own.
func sorted(t *testing.T, objects []any) (texts []string) {
	t.Helper()
	for _, object := range normal(t, objects) {
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	slices.Sort(texts)
	return texts
}

// errUnread reports a test that does more than ownTests understands.
var errUnread = errors.New("not understood")

// readKrusty returns the builds of the tests in a folder of Go files.
func readKrusty(t *testing.T, folder string) []krustyCase {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("got %d files in %s, %v", len(names), folder, err)
	}
	k := ownTests{functions: map[string]*ast.FuncDecl{}, texts: map[string]ast.Expr{}}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			k.declare(declaration)
		}
	}
	var cases []krustyCase
	for _, name := range slices.Sorted(maps.Keys(k.functions)) {
		if !strings.HasPrefix(name, "Test") {
			continue
		}
		run := krustyRun{ownTests: k, name: name, files: map[string][]byte{}, results: map[string]int{}}
		if err := run.body(k.functions[name].Body.List, map[string]ast.Expr{}); err == nil {
			cases = append(cases, run.cases...)
		}
	}
	return cases
}

// ownTests are the declarations of kustomize's tests.
type ownTests struct {
	functions map[string]*ast.FuncDecl
	texts     map[string]ast.Expr // of constants and variables
}

func (k ownTests) declare(declaration ast.Decl) {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Body != nil {
			k.functions[d.Name.Name] = d
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			values, ok := spec.(*ast.ValueSpec)
			if !ok || len(values.Names) != len(values.Values) {
				continue
			}
			for i, name := range values.Names {
				k.texts[name.Name] = values.Values[i]
			}
		}
	}
}

// text returns the text that an expression is, if it is made of literals.
func (k ownTests) text(e ast.Expr, locals map[string]ast.Expr) (string, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			return strconv.Unquote(e.Value)
		}
	case *ast.Ident:
		if value, ok := locals[e.Name]; ok {
			return k.text(value, nil)
		}
		if value, ok := k.texts[e.Name]; ok {
			return k.text(value, nil)
		}
	case *ast.ParenExpr:
		return k.text(e.X, locals)
	case *ast.BinaryExpr:
		left, err := k.text(e.X, locals)
		if err != nil || e.Op != token.ADD {
			return "", errUnread
		}
		right, err := k.text(e.Y, locals)
		return left + right, err
	}
	return "", errUnread
}

// krustyRun carries out one test.
type krustyRun struct {
	ownTests

	name    string
	files   map[string][]byte
	cases   []krustyCase
	results map[string]int // by the variable: the place of its build among cases
}

func (r *krustyRun) body(statements []ast.Stmt, locals map[string]ast.Expr) error {
	for _, statement := range statements {
		var err error
		switch s := statement.(type) {
		case *ast.ExprStmt:
			err = r.call(s.X, locals)
		case *ast.AssignStmt:
			err = r.assign(s, locals)
		default:
			err = errUnread
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// assign carries out an assignment: of the harness, of a build, or of a text.
func (r *krustyRun) assign(s *ast.AssignStmt, locals map[string]ast.Expr) error {
	if len(s.Lhs) != 1 || len(s.Rhs) != 1 {
		return errUnread
	}
	name, isName := s.Lhs[0].(*ast.Ident)
	if !isName {
		return errUnread
	}
	call, isCall := s.Rhs[0].(*ast.CallExpr)
	if !isCall {
		locals[name.Name] = s.Rhs[0]
		return nil
	}
	switch calledName(call) {
	case "kusttest_test.MakeHarness":
		return nil
	case "th.MakeDefaultOptions":
		locals[name.Name] = call
		return nil
	case "th.Run", "th.RunWithErr":
		folder, err := r.text(call.Args[0], locals)
		if err != nil || !r.isDefault(call.Args[1], locals) {
			return errUnread
		}
		r.results[name.Name] = len(r.cases)
		r.cases = append(r.cases, krustyCase{
			name: r.name, files: maps.Clone(r.files), folder: inTree(folder), fails: calledName(call) == "th.RunWithErr",
		})
		return nil
	}
	return errUnread
}

// isDefault reports whether the options of a build are the default ones.
func (r *krustyRun) isDefault(e ast.Expr, locals map[string]ast.Expr) bool {
	if name, ok := e.(*ast.Ident); ok {
		e = locals[name.Name]
	}
	call, ok := e.(*ast.CallExpr)
	return ok && calledName(call) == "th.MakeDefaultOptions"
}

// call carries out a call whose result is not used.
func (r *krustyRun) call(e ast.Expr, locals map[string]ast.Expr) error {
	call, isCall := e.(*ast.CallExpr)
	if !isCall {
		return errUnread
	}
	const head = "\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
	const component = "\napiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
	switch name := calledName(call); name {
	case "th.WriteK":
		return r.write(call, locals, "kustomization.yaml", head)
	case "th.WriteC":
		return r.write(call, locals, "kustomization.yaml", component)
	case "th.WriteF":
		return r.write(call, locals, "", "")
	case "th.Reset":
		clear(r.files)
		return nil
	case "th.AssertActualEqualsExpected":
		want, err := r.text(call.Args[1], locals)
		result, isName := call.Args[0].(*ast.Ident)
		if err != nil || !isName {
			return errUnread
		}
		if place, known := r.results[result.Name]; known {
			r.cases[place].want = want
			return nil
		}
		return errUnread
	default:
		if strings.HasPrefix(name, "assert.") || strings.HasPrefix(name, "require.") {
			return nil // about an error's words, which are kustomize's own
		}
		helper, known := r.functions[name]
		if !known || len(call.Args) != 1 {
			return errUnread
		}
		if argument, isName := call.Args[0].(*ast.Ident); !isName || argument.Name != "th" {
			return errUnread
		}
		return r.body(helper.Body.List, map[string]ast.Expr{})
	}
}

// write carries out a call that writes a file.
func (r *krustyRun) write(call *ast.CallExpr, locals map[string]ast.Expr, base, head string) error {
	name, err := r.text(call.Args[0], locals)
	if err != nil {
		return err
	}
	content, err := r.text(call.Args[1], locals)
	if err != nil {
		return err
	}
	r.files[inTree(path.Join(name, base))] = []byte(head + content)
	return nil
}

// inTree returns a path of kustomize's file system in memory as one of a tree.
func inTree(name string) string {
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}

// calledName returns the name of the called function, such as th.Run.
func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if of, ok := f.X.(*ast.Ident); ok {
			return of.Name + "." + f.Sel.Name
		}
	}
	return ""
}
