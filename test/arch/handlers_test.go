// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecHandlersHaveTheHousesOptions finds every Connect handler outside of tests, and requires
// options that bound its messages. By default Connect reads and inflates messages of any size. A
// handler made with a server's options must be mounted behind that server's guard, by its own file or by a
// method mount of its package that guards whatever it is given, unless its callers are already authenticated
// (Trusted).
func TestSecHandlersHaveTheHousesOptions(t *testing.T) {
	t.Parallel()
	handler := regexp.MustCompile(`^New\w*Handler(V1|V1Alpha|Simple)?$`)
	bounded := regexp.MustCompile(`\.Options\([\w.]*\)|probeOptions\(\)|rpc\.SmallMessages\(\)`)
	found := 0
	for _, folder := range []string{"internal", "render", "services", "cli"} {
		err := filepath.WalkDir(filepath.Join(root(t), folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || isTestEquipment(path) {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			text := source(t, files, file)
			ast.Inspect(file, func(node ast.Node) bool {
				call, ok := node.(*ast.CallExpr)
				if !ok {
					return true
				}
				selector, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || !handler.MatchString(selector.Sel.Name) {
					return true
				}
				from, ok := selector.X.(*ast.Ident)
				if !ok || from.Name != "connect" && from.Name != "grpcreflect" && !strings.HasSuffix(from.Name, "connect") {
					return true
				}
				found++
				made := source(t, files, call)
				switch {
				case !bounded.MatchString(made):
					t.Errorf("%s: %s has no bound on its messages: give it an rpc.Server's Options, or rpc.SmallMessages", files.Position(call.Pos()), made)
				case strings.Contains(text, ".mount("+made+")") && mountGuards(t, filepath.Dir(path)):
				case strings.Contains(made, ".Options(") && !strings.Contains(text, ".Guard(") && !strings.Contains(text, "Trusted:"):
					t.Errorf("%s: %s is not mounted behind its server's Guard", files.Position(call.Pos()), made)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 10 {
		t.Errorf("found %d handlers, want those of all services: fix this test", found)
	}
}

// mountGuards reports whether the package in a folder has a method mount that guards the handler which it is given.
func mountGuards(t *testing.T, folder string) bool {
	t.Helper()
	guards := regexp.MustCompile(`(?m)^func \(\w+ \*\w+\) mount\(\w+ string, (\w+) http\.Handler\)[^{]*\{\n[^}]*\.Guard\((\w+)\)\)\n`)
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if found := guards.FindStringSubmatch(string(text)); found != nil && found[1] == found[2] {
			return true
		}
	}
	return false
}

// isTestEquipment reports whether a file is used only by tests.
func isTestEquipment(path string) bool {
	for _, folder := range []string{"/testkit/", "test/", "/fleettest/"} {
		if strings.Contains(filepath.ToSlash(filepath.Dir(path))+"/", folder) {
			return true
		}
	}
	return false
}

func source(t *testing.T, files *token.FileSet, node any) string {
	t.Helper()
	var out bytes.Buffer
	if err := printer.Fprint(&out, files, node); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestSecurityPageNamesTests compares docs/design/security.md with the tests: each test in a row
// exists, and each TestSec… has a row.
func TestSecurityPageNamesTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root(t), "docs", "design", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, match := range regexp.MustCompile("`((?:Test|Fuzz)Sec[A-Z]\\w+)`").FindAllStringSubmatch(string(page), -1) {
		named[match[1]] = true
	}
	defined := map[string]bool{}
	define := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)Sec[A-Z]\w+)\(`)
	for _, folder := range []string{"internal", "render", "services", "cli", "test"} {
		err := filepath.WalkDir(filepath.Join(root(t), folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			for _, match := range define.FindAllStringSubmatch(string(content), -1) {
				defined[match[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for test := range named {
		if !defined[test] {
			t.Errorf("docs/design/security.md names %s, which does not exist", test)
		}
	}
	for test := range defined {
		if !named[test] {
			t.Errorf("docs/design/security.md has no row for %s", test)
		}
	}
}
