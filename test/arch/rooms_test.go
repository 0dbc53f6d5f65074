// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// room is one package, as its files are written.
type room struct {
	path  string // relative to the root
	files []string
	// fields and methods are the fields and methods of each type declared in the package, and takers
	// are the functions that take a pointer to it first, after a context.
	fields, methods, takers map[string]int
	// embedded are the names of the types that each struct embeds.
	embedded map[string][]string
	// arrows are the pairs of files of which the first names what the second declares. Struct
	// fields do not count.
	arrows map[[2]int]bool
}

// rooms reads every package that is not generated and not test equipment.
func rooms(t *testing.T) []room {
	t.Helper()
	top := root(t)
	var all []room
	for _, folder := range []string{"internal", "render", "services", "cli"} {
		err := filepath.WalkDir(filepath.Join(top, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() || isTestEquipment(path+"/") {
				return err
			}
			if entry.Name() == "testdata" {
				return fs.SkipDir
			}
			relative, err := filepath.Rel(top, path)
			if err != nil {
				return err
			}
			if r, found := readRoom(t, path, relative); found {
				all = append(all, r)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func readRoom(t *testing.T, folder, path string) (room, bool) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	r := room{
		path: path, fields: map[string]int{}, methods: map[string]int{}, takers: map[string]int{},
		embedded: map[string][]string{}, arrows: map[[2]int]bool{},
	}
	var files []*ast.File
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, filepath.Join(folder, entry.Name()), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if ast.IsGenerated(file) {
			continue
		}
		r.files, files = append(r.files, entry.Name()), append(files, file)
	}
	if len(files) == 0 {
		return r, false
	}
	for _, file := range files {
		r.count(file)
	}
	r.draw(fset, files)
	return r, true
}

// count counts fields, methods and the functions that are methods in all but form.
func (r *room) count(file *ast.File) {
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv != nil {
				r.methods[receiver(decl.Recv.List[0].Type)]++
			} else if taken := firstPointer(decl.Type); taken != "" {
				r.takers[taken]++
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				typeSpec, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				if structType, ok := typeSpec.Type.(*ast.StructType); ok {
					for _, field := range structType.Fields.List {
						r.fields[typeSpec.Name.Name] += max(len(field.Names), 1)
						if len(field.Names) == 0 {
							r.embedded[typeSpec.Name.Name] = append(r.embedded[typeSpec.Name.Name], receiver(field.Type))
						}
					}
				}
			}
		}
	}
}

// firstPointer returns the type to which the first parameter after a context points, or "".
func firstPointer(of *ast.FuncType) string {
	for _, parameter := range of.Params.List {
		switch expr := parameter.Type.(type) {
		case *ast.SelectorExpr:
			if expr.Sel.Name == "Context" {
				continue
			}
		case *ast.StarExpr:
			return receiver(expr)
		}
		break
	}
	return ""
}

// reach returns the number of methods that a type has or embeds, however deep.
func (r *room) reach(name string, seen map[string]bool) int {
	if seen[name] {
		return 0
	}
	seen[name] = true
	count := r.methods[name]
	for _, part := range r.embedded[name] {
		count += r.reach(part, seen)
	}
	return count
}

// receiver returns the name of a type of the package without its pointer and its type arguments, or
// "" for a type of another package.
func receiver(expr ast.Expr) string {
	switch expr := expr.(type) {
	case *ast.StarExpr:
		return receiver(expr.X)
	case *ast.IndexExpr:
		return receiver(expr.X)
	case *ast.IndexListExpr:
		return receiver(expr.X)
	case *ast.Ident:
		return expr.Name
	default:
		return ""
	}
}

// noImports makes the type checker continue without other packages: only declarations of the
// package itself matter.
type noImports struct{}

// Import implements types.Importer.
func (noImports) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, filepath.Base(path))
	p.MarkComplete()
	return p, nil
}

// draw finds the arrows between files.
func (r *room) draw(fset *token.FileSet, files []*ast.File) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	config := types.Config{Importer: noImports{}, Error: func(error) {}} // errors are about names of other packages
	pkg, _ := config.Check(r.path, fset, files, info)
	index := map[string]int{}
	for i, file := range files {
		index[fset.Position(file.Pos()).Filename] = i
	}
	for ident, object := range info.Uses {
		if v, isVar := object.(*types.Var); object.Pkg() != pkg || isVar && v.IsField() {
			continue
		}
		_, isFunc := object.(*types.Func)
		if !isFunc && object.Parent() != pkg.Scope() {
			continue
		}
		from, to := index[fset.Position(ident.Pos()).Filename], index[fset.Position(object.Pos()).Filename]
		if from != to {
			r.arrows[[2]int{from, to}] = true
		}
	}
}

// back returns the arrows that run back up in the best order of the files that a search finds. The
// search moves one file at a time to its best place until none improves.
func (r *room) back() [][2]int {
	order := make([]int, len(r.files))
	for i := range order {
		order[i] = i
	}
	degree := func(file int) int { // files named by few that name many belong on top
		balance := 0
		for arrow := range r.arrows {
			if arrow[0] == file {
				balance--
			}
			if arrow[1] == file {
				balance++
			}
		}
		return balance
	}
	slices.SortStableFunc(order, func(a, b int) int { return degree(a) - degree(b) })
	for improved := true; improved; {
		improved = false
		for _, file := range slices.Clone(order) {
			best, bestCost := order, len(r.against(order))
			rest := slices.DeleteFunc(slices.Clone(order), func(other int) bool { return other == file })
			for place := range len(order) {
				candidate := slices.Insert(slices.Clone(rest), place, file)
				if cost := len(r.against(candidate)); cost < bestCost {
					best, bestCost, improved = candidate, cost, true
				}
			}
			order = best
		}
	}
	return r.against(order)
}

// against returns the arrows from a file to one above it.
func (r *room) against(order []int) [][2]int {
	place := make([]int, len(order))
	for i, file := range order {
		place[file] = i
	}
	var back [][2]int
	for arrow := range r.arrows {
		if place[arrow[0]] > place[arrow[1]] {
			back = append(back, arrow)
		}
	}
	return back
}

// The limits of a package. A limit of file length is not enough: an object that is spread over many
// files, each of which calls all others, has short files.
const (
	maxFields  = 20
	maxMethods = 40
	// maxExceptions is how many types of the whole tree may exceed them.
	maxExceptions = 5
	// maxBack is how many percent of the arrows between the files of a package may run back up.
	maxBack = 15
	// minFiles is the number of files from which the rule applies: fewer can be read in any order.
	minFiles = 6
)

// TestTypesAreSmall enforces the limits on fields and methods. A type's methods are its own, those
// of the structs of its package that it embeds, and the functions of its package that take a pointer
// to it first: a function in place of a method does not make a type smaller.
func TestTypesAreSmall(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	check := func(r room, name, what string, count, limit int) {
		id := r.path + "." + name
		if count <= limit {
			return
		}
		used[id] = true
		if _, isExcepted := wideTypes[id]; !isExcepted {
			t.Errorf("%s has %d %s, want at most %d: split it", id, count, what, limit)
		}
	}
	for _, r := range rooms(t) {
		for name, count := range r.fields {
			check(r, name, "fields", count, maxFields)
		}
		for name := range r.types() {
			check(r, name, "methods", r.reach(name, map[string]bool{})+r.takers[name], maxMethods)
		}
	}
	for id, why := range wideTypes {
		if !used[id] {
			t.Errorf("%s is within the limits or does not exist: remove its exception (%s)", id, why)
		}
	}
	if len(wideTypes) > maxExceptions {
		t.Errorf("%d types are excepted from the limits, want at most %d", len(wideTypes), maxExceptions)
	}
}

// types returns the names of the package's types that have methods, embed a type, or are taken by
// functions.
func (r *room) types() map[string]bool {
	names := map[string]bool{}
	for name := range r.methods {
		names[name] = true
	}
	for name := range r.embedded {
		names[name] = true
	}
	for name := range r.takers {
		names[name] = true
	}
	return names
}

// TestCallsRunOneWay enforces an order of the files of a package: a file only names what files
// below it declare.
func TestCallsRunOneWay(t *testing.T) {
	t.Parallel()
	for _, r := range rooms(t) {
		back := r.back()
		if len(r.files) < minFiles || 100*len(back) <= maxBack*len(r.arrows) {
			continue
		}
		var names []string
		for _, arrow := range back {
			names = append(names, r.files[arrow[0]]+" → "+r.files[arrow[1]])
		}
		slices.Sort(names)
		t.Errorf("%s: %d of %d arrows between its files run back up, want at most %d %%: %s",
			r.path, len(back), len(r.arrows), maxBack, strings.Join(names, ", "))
	}
}
