// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bufio"
	"bytes"
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// root is the top folder of the checkout.
func root(t *testing.T) string {
	t.Helper()
	dir, err := workspace()
	if err != nil {
		t.Fatalf("find the workspace: %v", err)
	}
	return dir
}

// workspace returns the folder of go.work. Rules about each file ask for it thousands of times, so Go is
// asked once.
var workspace = sync.OnceValues(func() (string, error) {
	out, err := exec.CommandContext(context.Background(), "go", "env", "GOWORK").Output()
	return filepath.Dir(strings.TrimSpace(string(out))), err
})

// trackedFiles returns the files that Git tracks or would track, relative to the root.
func trackedFiles(t *testing.T) []string {
	t.Helper()
	out, err := listed()
	if err != nil {
		t.Fatalf("list files: %v", err)
	}
	return strings.Fields(out)
}

// listed returns the list that Git prints of its files.
var listed = sync.OnceValues(func() (string, error) {
	cmd := exec.CommandContext(context.Background(), "git", "ls-files", "--cached", "--others", "--exclude-standard")
	var err error
	if cmd.Dir, err = workspace(); err != nil {
		return "", err
	}
	out, err := cmd.Output()
	return string(out), err
})

func TestEveryModuleHasTheSameGoLine(t *testing.T) {
	t.Parallel()
	top := root(t)
	goLine := regexp.MustCompile(`(?m)^go (\S+)$`)
	want := ""
	for _, file := range append(filter(trackedFiles(t), "go.mod"), "go.work") {
		content, err := os.ReadFile(filepath.Join(top, file))
		if err != nil {
			t.Fatal(err)
		}
		match := goLine.FindSubmatch(content)
		if match == nil {
			t.Errorf("%s has no go line", file)
			continue
		}
		if want == "" {
			want = string(match[1])
		}
		// Tool modules follow what they build, and are not part of the product.
		if got := string(match[1]); got != want && !strings.HasPrefix(file, "tools/") {
			t.Errorf("%s: go line: got %s, want %s as everywhere", file, got, want)
		}
		if bytes.Contains(content, []byte("\ntoolchain ")) {
			t.Errorf("%s: has a toolchain line; the go line says enough", file)
		}
	}
}

// TestFolderMap compares the folders in ARCHITECTURE.md with the existing folders.
func TestFolderMap(t *testing.T) {
	t.Parallel()
	top := root(t)
	page, err := os.Open(filepath.Join(top, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	row := regexp.MustCompile("^\\| `([^`]+)/` \\|")
	var documented []string
	for lines := bufio.NewScanner(page); lines.Scan(); {
		if m := row.FindStringSubmatch(lines.Text()); m != nil {
			documented = append(documented, m[1])
		}
	}
	var existing []string
	for _, file := range trackedFiles(t) {
		parts := strings.Split(file, "/")
		switch {
		case len(parts) == 1 || strings.HasPrefix(parts[0], "."):
		case parts[0] == "services":
			existing = append(existing, parts[0]+"/"+parts[1])
		default:
			existing = append(existing, parts[0])
		}
	}
	slices.Sort(existing)
	slices.Sort(documented)
	if diff := cmp.Diff(slices.Compact(existing), documented); diff != "" {
		t.Errorf("the folder map of ARCHITECTURE.md differs from the tree (-tree +page):\n%s", diff)
	}
}

// TestNoSleepInTests makes tests wait on events instead of the wall clock.
func TestNoSleepInTests(t *testing.T) {
	t.Parallel()
	top := root(t)
	for _, file := range filter(trackedFiles(t), "_test.go") {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(top, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("parse %s: %v", file, err)
			continue
		}
		// Inside a synctest bubble time is virtual, and sleeping is how it advances.
		bubble := slices.ContainsFunc(parsed.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` })
		ast.Inspect(parsed, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && !bubble && sel.Sel.Name == "Sleep" {
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" {
					t.Errorf("%s sleeps: wait on an event, or use testing/synctest", file)
				}
			}
			return true
		})
	}
}

// TestNoDrawerNames refuses package names without meaning.
func TestNoDrawerNames(t *testing.T) {
	t.Parallel()
	drawers := []string{"util", "utils", "common", "helper", "helpers", "types", "models", "manager", "base", "misc"}
	for _, file := range filter(trackedFiles(t), ".go") {
		if slices.Contains(drawers, filepath.Base(filepath.Dir(file))) {
			t.Errorf("%s: name the package by its subject", file)
		}
	}
}

// filter returns the files with the given suffix.
func filter(files []string, suffix string) []string {
	return slices.DeleteFunc(slices.Clone(files), func(file string) bool { return !strings.HasSuffix(file, suffix) })
}

// TestGeneratedCodeIsVetted requires that `make lint` vets each package with generated code by itself. The linter
// has vet's checks, and drops what it finds in generated files.
func TestGeneratedCodeIsVetted(t *testing.T) {
	t.Parallel()
	read := func(file string) string {
		content, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	vetted := regexp.MustCompile(`(?m)^GENERATED := (.*)$`).FindStringSubmatch(read("Makefile"))
	if vetted == nil || !strings.Contains(read("Makefile"), "vet $(GENERATED)") {
		t.Fatal("make lint does not vet the packages of GENERATED")
	}
	if config := read(".golangci.yml"); !strings.Contains(config, "\n    - govet\n") || strings.Contains(config, "disable:") {
		t.Error("the linter leaves out checks of vet, so make lint has to vet all packages")
	}
	for _, file := range filter(trackedFiles(t), ".go") {
		isVetted := slices.ContainsFunc(strings.Fields(vetted[1]), func(pattern string) bool {
			return strings.HasPrefix("./"+file, strings.TrimSuffix(pattern, "..."))
		})
		if !isVetted && strings.Contains(read(file), "\n// Code generated ") {
			t.Errorf("%s is generated, and make lint does not vet it: add its package to GENERATED in the Makefile", file)
		}
	}
}

// skipsRace matches a test that skips with the race detector. The group is its name.
var skipsRace = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\) \{\n\traced\.Skip\(t\)$`)

// TestSkippedByTheDetectorRunsWithoutIt requires that `make test` also runs without the race detector each test that
// skips with it, or the test would never run.
func TestSkippedByTheDetectorRunsWithoutIt(t *testing.T) {
	t.Parallel()
	read := func(file string) string {
		content, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	setting := func(name string) string {
		match := regexp.MustCompile(`(?m)^` + name + ` := (.*)$`).FindStringSubmatch(read("Makefile"))
		if match == nil {
			t.Fatalf("the Makefile has no %s", name)
		}
		return strings.ReplaceAll(match[1], "$$", "$")
	}
	packages, tests := strings.Fields(setting("MEASURED")), regexp.MustCompile(setting("MEASURE"))
	var found []string
	for _, file := range filter(trackedFiles(t), "_test.go") {
		text := read(file)
		calls := strings.Count(text, "\traced.Skip(")
		named := skipsRace.FindAllStringSubmatch(text, -1)
		if calls != len(named) {
			t.Errorf("%s: raced.Skip has to be the first line of a test", file)
		}
		for _, m := range named {
			found = append(found, m[1])
			if folder := "./" + filepath.ToSlash(filepath.Dir(file)); !slices.Contains(packages, folder) || !tests.MatchString(m[1]) {
				t.Errorf("%s skips with the race detector, and nothing runs it without: add %s to MEASURED and %s to MEASURE in the Makefile", m[1], folder, m[1])
			}
		}
	}
	if len(found) < 2 {
		t.Errorf("found %v, want the tests that measure memory", found)
	}
}

// TestInternalHasShelves keeps internal from becoming a drawer: a package lies on the shelf of what runs programs, of the
// words and forms that programs share, of tools, or of what tests need.
func TestInternalHasShelves(t *testing.T) {
	t.Parallel()
	for _, file := range trackedFiles(t) {
		rest, isInternal := strings.CutPrefix(file, "internal/")
		shelf, _, isBelow := strings.Cut(rest, "/")
		if isInternal && isBelow && !slices.Contains([]string{"runtime", "contract", "kit", "testkit"}, shelf) {
			t.Errorf("%s: put its package into internal/runtime, internal/contract, internal/kit or internal/testkit", file)
		}
	}
}
