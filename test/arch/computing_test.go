// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestComputingPackagesOnlyCompute holds the packages that the Makefile compiles without the race
// detector to what makes that safe. The detector does not see the atomic values of such a package,
// so a goroutine that waits for one would appear to race in the packages around it. It does not see
// accesses there either, so a goroutine of the package could race unnoticed.
func TestComputingPackagesOnlyCompute(t *testing.T) {
	t.Parallel()
	for _, p := range computingPackages(t) {
		for _, path := range []string{"sync/atomic", "internal/sync", "internal/runtime/atomic", "context", "unique", "weak"} {
			if slices.Contains(p.Imports, path) {
				t.Errorf("%s imports %s: take it out of COMPUTING in the Makefile", p.ImportPath, path)
			}
		}
		for _, name := range p.GoFiles {
			tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(tree, func(node ast.Node) bool {
				switch node.(type) {
				case *ast.GoStmt, *ast.ChanType:
					t.Errorf("%s starts or joins goroutines in %s: take it out of COMPUTING in the Makefile", p.ImportPath, name)
				}
				return true
			})
		}
	}
}

// computingPackage is the output of `go list -json` for a package in the Makefile's COMPUTING.
type computingPackage struct {
	ImportPath, Dir  string
	Imports, GoFiles []string
}

// computingPackages returns the packages in the Makefile's COMPUTING. All must exist.
func computingPackages(t *testing.T) (packages []computingPackage) {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(root(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`(?m)^COMPUTING := ((?:.*\\\n)*.*)$`).FindSubmatch(makefile)
	if match == nil {
		t.Fatal("the Makefile has no COMPUTING: update test/arch")
	}
	names := strings.Fields(strings.ReplaceAll(string(match[1]), "\\\n", " "))

	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Dir,Imports,GoFiles"}, names...)...)
	cmd.Dir = root(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list packages: %v\n%s", err, stderr.String())
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p computingPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("read go list: %v", err)
		}
		packages = append(packages, p)
	}
	if len(packages) != len(names) {
		t.Fatalf("got %d packages, want the %d of COMPUTING", len(packages), len(names))
	}
	return packages
}
