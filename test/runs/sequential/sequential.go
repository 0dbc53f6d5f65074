// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package sequential finds the packages whose tests the race detector cannot help: nothing in them
// runs at once.
//
// A package is sequential if neither its code nor its tests share anything between goroutines, and no
// package of ours below it starts a goroutine. The detector makes such tests several times slower, and
// their programs take twice as long to link.
package sequential

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"strconv"
	"strings"
)

// Package is a package as `go list -json` prints it.
type Package struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

// hasTests reports whether the package has a test program.
func (p Package) hasTests() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// sharing are the imports of code that shares values between goroutines.
var sharing = map[string]bool{
	"sync": true, "sync/atomic": true, "golang.org/x/sync/errgroup": true, "testing/synctest": true, "net/http/httptest": true,
}

// starting are the functions and types, by the package's name, that run their caller's code in a goroutine.
var starting = map[string]bool{
	"time.AfterFunc": true, "context.AfterFunc": true, "http.Server": true, "http.Serve": true, "http.ServeTLS": true,
	"http.ListenAndServe": true, "net.Listen": true, "net.ListenConfig": true, "net.Pipe": true,
}

// traits are what a package's files do.
type traits struct {
	shares bool // the files use locks, atomic values, channels or select
	starts bool // the files start goroutines
}

// Find reads the output of `go list -json` for all packages of the tree, and returns the import paths of
// those with tests, sequential ones and the remaining ones, in the order of the input.
func Find(from io.Reader) (alone, raced []string, err error) {
	f := finder{packages: map[string]Package{}, starts: map[string]bool{}}
	var order []string
	for decoder := json.NewDecoder(from); ; {
		var p Package
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			for _, path := range order {
				isAlone, err := f.isSequential(f.packages[path])
				switch {
				case err != nil:
					return nil, nil, err
				case isAlone:
					alone = append(alone, path)
				default:
					raced = append(raced, path)
				}
			}
			return alone, raced, nil
		case err != nil:
			return nil, nil, fmt.Errorf("read packages: %w", err)
		}
		f.packages[p.ImportPath] = p
		if p.hasTests() {
			order = append(order, p.ImportPath)
		}
	}
}

// finder keeps what it has found out.
type finder struct {
	packages map[string]Package
	starts   map[string]bool // by path, whether the package or one below it starts goroutines
}

func (f *finder) isSequential(p Package) (bool, error) {
	for _, files := range [][]string{p.GoFiles, p.TestGoFiles, p.XTestGoFiles} {
		for _, name := range files {
			if t, err := read(filepath.Join(p.Dir, name)); err != nil || t.shares || t.starts {
				return false, err
			}
		}
	}
	for _, imports := range [][]string{p.Imports, p.TestImports, p.XTestImports} {
		for _, path := range imports {
			if starts, err := f.startsGoroutines(path); err != nil || starts {
				return false, err
			}
		}
	}
	return true, nil
}

// startsGoroutines reports whether a package of the tree or one below it starts goroutines. Packages of
// others do so for themselves, and lock what they share.
func (f *finder) startsGoroutines(path string) (bool, error) {
	p, isOurs := f.packages[path]
	if starts, known := f.starts[path]; known || !isOurs {
		return starts, nil
	}
	starts := false
	for _, name := range p.GoFiles {
		t, err := read(filepath.Join(p.Dir, name))
		if err != nil {
			return false, err
		}
		starts = starts || t.starts
	}
	for _, below := range p.Imports {
		belowStarts, err := f.startsGoroutines(below)
		if err != nil {
			return false, err
		}
		starts = starts || belowStarts
	}
	f.starts[path] = starts
	return starts, nil
}

// read returns the traits of a file.
func read(path string) (t traits, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return traits{}, fmt.Errorf("read source: %w", err)
	}
	for _, spec := range file.Imports {
		if imported, err := strconv.Unquote(spec.Path.Value); err == nil {
			t.shares = t.shares || sharing[imported] || strings.HasPrefix(imported, "sync/")
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GoStmt:
			t.starts = true
		case *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
			t.shares = true
		case *ast.CallExpr: // errgroup.Group and sync.WaitGroup
			if method, ok := node.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "Go" {
				t.starts = true
			}
		case *ast.SelectorExpr:
			if of, ok := node.X.(*ast.Ident); ok && (starting[of.Name+"."+node.Sel.Name] || of.Name == "httptest") {
				t.starts = true
			}
		}
		return true
	})
	return t, nil
}
