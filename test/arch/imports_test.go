// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// goPackage is the output of `go list -json` for a package.
type goPackage struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

// listPackages returns every package of the workspace with all they link, by import path.
func listPackages(t *testing.T) map[string]goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Imports,Deps", "work")
	cmd.Dir = root(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list packages: %v\n%s", err, stderr.String())
	}
	packages := make(map[string]goPackage)
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("read go list: %v", err)
		}
		packages[p.ImportPath] = p
	}
}

func TestImportRules(t *testing.T) {
	t.Parallel()
	packages := listPackages(t)
	for _, r := range rules {
		checkRule(t, packages, r)
	}
}

// checkRule compares one rule with the code, and the rule's own patterns with existing packages.
func checkRule(t *testing.T, packages map[string]goPackage, r rule) {
	t.Helper()
	for _, pattern := range append(slices.Clone(r.from), r.except...) {
		if !anyMatch(packages, "./"+pattern) {
			t.Errorf("the rule %q names %s, which does not exist: update test/arch", r.why, pattern)
		}
	}
	for _, pattern := range r.forbidden {
		if !anyMatch(packages, pattern) {
			t.Errorf("the rule %q forbids %s, which no package imports any more: update test/arch", r.why, pattern)
		}
	}
	for path, p := range packages {
		if !ruleCovers(r, path) {
			continue
		}
		imported := p.Imports
		if r.linked {
			imported = p.Deps
		}
		for _, dep := range imported {
			if i := slices.IndexFunc(r.forbidden, func(pattern string) bool { return matches(pattern, dep) }); i >= 0 {
				t.Errorf("%s imports %s: %s", path, dep, r.why)
			}
		}
	}
}

// ruleCovers reports whether a rule covers the package.
func ruleCovers(r rule, path string) bool {
	covers := func(pattern string) bool { return matches("./"+pattern, path) }
	return slices.ContainsFunc(r.from, covers) && !slices.ContainsFunc(r.except, covers)
}

// anyMatch reports whether the pattern matches an existing package.
func anyMatch(packages map[string]goPackage, pattern string) bool {
	for path := range packages {
		if matches(pattern, path) {
			return true
		}
	}
	return false
}

// matches supports exact paths, "…/..." for a path and everything below it, and "./" for our own
// module prefix.
func matches(pattern, path string) bool {
	if own, ok := strings.CutPrefix(pattern, "./"); ok {
		pattern = module + "/" + own
	}
	if prefix, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == prefix || strings.HasPrefix(path, prefix+"/")
	}
	return path == pattern
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, path string
		want          bool
	}{
		{"net/http", "net/http", true},
		{"net/http", "net/http/httputil", false},
		{"k8s.io/client-go/...", "k8s.io/client-go/rest", true},
		{"k8s.io/client-go/...", "k8s.io/client-gopher", false},
		{"./gen/...", module + "/gen/go/leat/type/v1", true},
		{"./services/agent", module + "/services/agent/internal/api", false},
	} {
		if got := matches(tc.pattern, tc.path); got != tc.want {
			t.Errorf("matches(%q, %q): got %t, want %t", tc.pattern, tc.path, got, tc.want)
		}
	}
}
