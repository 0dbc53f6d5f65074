// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cue_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/parser"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render/cue"
	"github.com/leatdev/leat/render/rendertest"
)

// TestEqualOnCUEsOwnPrograms evaluates programs that CUE's module brings for its own tests, beside
// cue export: every third program of one file without imports. None of them is in this repository.
func TestEqualOnCUEsOwnPrograms(t *testing.T) {
	t.Parallel()
	program := rendertest.Original(t, "cue")
	const sample = 3 // of so many programs one is compared
	var compared, refused atomic.Int64
	t.Run("programs", func(t *testing.T) {
		for i, own := range ownPrograms(t) {
			if i%sample != 0 {
				continue
			}
			t.Run(own.name, func(t *testing.T) {
				t.Parallel()
				in := input(map[string]string{"a.cue": own.text}, "", &renderstep.CUEOptions{Expression: own.expression})
				got, gotErr := cue.Renderer{}.RenderStep(t.Context(), in)
				want, wantErr := rendertest.Run(t, rendertest.Write(t, in.Files), program, "export", "--out", "json", "-e", own.expression, ".")
				switch {
				case (gotErr == nil) != (wantErr == nil):
					t.Errorf("got %v; cue export says: %v\n%s", gotErr, wantErr, own.text)
				case gotErr != nil:
					refused.Add(1)
				default:
					compared.Add(1)
					if diff := cmp.Diff(decoded(t, want), decoded(t, []byte(rendertest.Text(got.Documents)))); diff != "" {
						t.Errorf("(-cue export +Leat):\n%s", diff)
					}
				}
			})
		}
	})
	if compared.Load() < 20 || refused.Load() < 20 {
		t.Errorf("compared %d results and %d failures, want 20 of each at least: the module's tests are written in another way", compared.Load(), refused.Load())
	}
	t.Logf("%d results are equal, %d programs are refused by both", compared.Load(), refused.Load())
}

// ownProgram is a program of CUE's tests, as a package.
type ownProgram struct {
	name, text string
	expression string // an object with every field of the program
}

// severalFiles matches what makes a program more than one file.
var severalFiles = regexp.MustCompile(`(?m)^(import|package|@)`)

func ownPrograms(t *testing.T) (programs []ownProgram) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(rendertest.Module(t, "cuelang.org/go"), "cue", "testdata", "*", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		folder := filepath.Base(filepath.Dir(name))
		if folder == "benchmarks" {
			continue // these only take long
		}
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var sources []string
		for _, file := range archive.Files {
			if strings.HasSuffix(file.Name, ".cue") && !strings.Contains(file.Name, "/") {
				sources = append(sources, string(file.Data))
			}
		}
		if len(sources) != 1 || severalFiles.MatchString(sources[0]) {
			continue
		}
		if expression := objectOf(sources[0]); expression != "" {
			programs = append(programs, ownProgram{
				name: folder + "/" + strings.TrimSuffix(filepath.Base(name), ".txtar"), text: "package a\n\n" + sources[0], expression: expression,
			})
		}
	}
	return programs
}

// objectOf returns an expression for an object that holds the plain fields of a source, or "" if
// there are none. Quoted names are no references, so each value is the package's.
func objectOf(source string) string {
	file, err := parser.ParseFile("in.cue", source)
	if err != nil {
		return ""
	}
	var fields []string
	seen := map[string]bool{}
	for _, declaration := range file.Decls {
		field, ok := declaration.(*ast.Field)
		if !ok {
			continue
		}
		name, isPlain := field.Label.(*ast.Ident)
		if !isPlain || field.Constraint != 0 || strings.HasPrefix(name.Name, "_") || strings.HasPrefix(name.Name, "#") || seen[name.Name] {
			continue
		}
		seen[name.Name] = true
		fields = append(fields, fmt.Sprintf("%q: %s", name.Name, name.Name))
	}
	if len(fields) == 0 {
		return ""
	}
	return `{"kind": "Result", "value": {` + strings.Join(fields, ", ") + `}}`
}

// decoded returns a value in JSON, with its numbers as they are written.
func decoded(t *testing.T, text []byte) (value any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}
