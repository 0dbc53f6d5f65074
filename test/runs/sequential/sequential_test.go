// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sequential_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/test/runs/sequential"
)

// TestFind gives each rule a package that only this rule finds, and one that no rule may find.
func TestFind(t *testing.T) {
	t.Parallel()
	const test = "package p\n\nfunc TestIt(t *testing.T) { t.Parallel() }\n"
	cases := []struct {
		name       string
		code, test string
		imports    []string
		isRaced    bool
	}{
		{name: "plain", code: "package p\n\nimport \"net/http\"\n\nconst Method = http.MethodGet\n", test: test},
		{name: "above-plain", code: "package p\n", test: test, imports: []string{"plain"}},
		{name: "above-lock", code: "package p\n", test: test, imports: []string{"lock"}}, // it locks, and starts nothing
		{name: "lock", code: "package p\n\nimport \"sync\"\n\nvar mu sync.Mutex\n", test: test, isRaced: true},
		{name: "atomic", code: "package p\n\nimport _ \"sync/atomic\"\n", test: test, isRaced: true},
		{name: "channel", code: "package p\n\nvar c chan int\n", test: test, isRaced: true},
		{name: "statement", code: "package p\n\nfunc F() { go F() }\n", test: test, isRaced: true},
		{name: "group", code: "package p\n\nfunc F(g group) { g.Go(nil) }\n", test: test, isRaced: true},
		{name: "timer", code: "package p\n\nimport \"time\"\n\nvar _ = time.AfterFunc\n", test: test, isRaced: true},
		{name: "server", code: "package p\n\nimport \"net/http\"\n\nvar s http.Server\n", test: test, isRaced: true},
		{name: "in-test", code: "package p\n", test: test + "\nfunc f() { go f() }\n", isRaced: true},
		{name: "test-server", code: "package p\n", test: "package p\n\nimport \"net/http/httptest\"\n\nvar s httptest.Server\n", isRaced: true},
		{name: "above-statement", code: "package p\n", test: test, imports: []string{"statement"}, isRaced: true},
		{name: "two-above", code: "package p\n", test: test, imports: []string{"above-statement"}, isRaced: true},
		{name: "no-tests", code: "package p\n"},
	}
	dir := t.TempDir()
	var list bytes.Buffer
	var wantAlone, wantRaced []string
	for _, c := range cases {
		p := sequential.Package{ImportPath: c.name, Dir: filepath.Join(dir, c.name), Imports: c.imports, GoFiles: []string{"p.go"}}
		if err := os.Mkdir(p.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(p.Dir, "p.go"), []byte(c.code), 0o600); err != nil {
			t.Fatal(err)
		}
		if c.test != "" {
			p.XTestGoFiles = []string{"p_test.go"}
			if err := os.WriteFile(filepath.Join(p.Dir, "p_test.go"), []byte(c.test), 0o600); err != nil {
				t.Fatal(err)
			}
			if c.isRaced {
				wantRaced = append(wantRaced, c.name)
			} else {
				wantAlone = append(wantAlone, c.name)
			}
		}
		if err := json.NewEncoder(&list).Encode(p); err != nil {
			t.Fatal(err)
		}
	}
	alone, raced, err := sequential.Find(&list)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(alone, wantAlone) {
		t.Errorf("sequential: got %v, want %v", alone, wantAlone)
	}
	if !slices.Equal(raced, wantRaced) {
		t.Errorf("raced: got %v, want %v", raced, wantRaced)
	}
}

// TestFindRefuses reports a source that does not parse, and input that go list did not print: a package
// must not escape the race detector because nobody could read it.
func TestFindRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte("no source"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(sequential.Package{ImportPath: "p", Dir: dir, GoFiles: []string{"p.go"}, TestGoFiles: []string{"p.go"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, input := range []string{string(list), "go: no modules"} {
		if alone, _, err := sequential.Find(strings.NewReader(input)); err == nil {
			t.Errorf("%s: got %v, want an error", input, alone)
		}
	}
}
