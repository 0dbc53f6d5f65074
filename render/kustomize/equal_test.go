// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kustomize_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/testkit/golden"
	"github.com/leatdev/leat/render"
)

// program is the kustomize that results are compared with. It is built once, by make test before
// the tests.
func program(t testing.TB) string {
	t.Helper()
	binaries, err := localkube.Build(t.Context(), localkube.BuildParams{Kustomize: true})
	if err != nil {
		t.Fatal(err)
	}
	return binaries.Kustomize
}

// example is an archive of testdata/kustomizations. Its file settings.yaml holds this.
type example struct {
	// Feature and Cases describe it, for docs/guides/renderers/kustomizations.md.
	Feature string   `json:"feature"`
	Cases   []string `json:"cases"`
	// Folder is the folder to build. Empty: the root.
	Folder string `json:"folder"`
	// Error is a part of the error that both report, or Leat alone if Differs is set. Empty: both
	// succeed.
	Error string `json:"error"`
	// Differs is why the results differ on purpose. Empty: they are equal.
	Differs string `json:"differs"`
}

func readExample(t *testing.T, name string) (e example, content map[string][]byte) {
	t.Helper()
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	content = map[string][]byte{}
	for _, file := range archive.Files {
		if file.Name != "settings.yaml" {
			content[file.Name] = file.Data
		} else if err := yaml.UnmarshalStrict(file.Data, &e); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if e.Feature == "" || len(e.Cases) == 0 {
		t.Errorf("%s does not say which feature and cases it shows", name)
	}
	return e, content
}

func examples(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/kustomizations/*.txtar")
	if err != nil || len(names) < 40 {
		t.Fatalf("got %d kustomizations, %v", len(names), err)
	}
	return names
}

// kustomize returns the objects that kustomize build writes, in its order.
func (e example) kustomize(t *testing.T, content map[string][]byte) ([]any, error) {
	t.Helper()
	dir := t.TempDir()
	for name, data := range content {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), program(t), "build", "--load-restrictor", "LoadRestrictionsNone", filepath.Join(dir, e.Folder))
	cmd.Env = []string{"HOME=" + dir, "PATH="}
	var output, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &words
	if err := cmd.Run(); err != nil {
		return nil, errors.New(words.String())
	}
	var objects []any
	for document := range strings.SplitSeq("\n"+output.String(), "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document+"\n"), &object); err != nil {
			t.Fatalf("%v: %s", err, document)
		}
		if items, isList := object["items"].([]any); isList { // Leat replaces lists by their items
			objects = append(objects, items...)
		} else if object != nil {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// TestEqualToKustomize compares the objects of each kustomization in testdata/kustomizations with
// the objects that kustomize build writes, and their order.
func TestEqualToKustomize(t *testing.T) {
	t.Parallel()
	for _, name := range examples(t) {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			t.Parallel()
			e, content := readExample(t, name)
			built, gotErr := build(t, render.NewFiles(content), e.Folder)
			want, wantErr := e.kustomize(t, content)
			if e.Error != "" {
				if gotErr == nil || !strings.Contains(gotErr.Error(), e.Error) || (wantErr == nil) != (e.Differs != "") {
					t.Errorf("got %v, want an error with %q; kustomize says: %v", gotErr, e.Error, wantErr)
				}
				return
			}
			if gotErr != nil || wantErr != nil {
				t.Fatalf("got %v; kustomize says: %v", gotErr, wantErr)
			}
			var got []any
			for _, o := range built {
				got = append(got, o.Object)
			}
			if diff := cmp.Diff(normal(t, want), normal(t, got)); diff != "" {
				t.Errorf("kustomize's objects are -, Leat's are +:\n%s", diff)
			}
		})
	}
}

// normal returns objects with all their numbers as encoding/json decodes them.
func normal(t *testing.T, objects []any) (same []any) {
	t.Helper()
	text, err := yaml.Marshal(objects)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &same); err != nil {
		t.Fatal(err)
	}
	return same
}

// TestDocumentedKustomizations compares the table in docs/guides/renderers/kustomizations.md with
// the examples. Run it with -update after a change of them.
func TestDocumentedKustomizations(t *testing.T) {
	t.Parallel()
	var rows []string
	for _, name := range examples(t) {
		e, _ := readExample(t, name)
		result := "equal"
		switch {
		case e.Differs != "":
			result = e.Differs
		case e.Error != "":
			result = "both refuse it"
		}
		for _, shown := range e.Cases {
			rows = append(rows, fmt.Sprintf("| %s | %s | `%s` | %s |\n", e.Feature, shown, filepath.Base(name), result))
		}
	}
	slices.Sort(rows)
	table := "| feature | case | file | result |\n|---|---|---|---|\n" + strings.Join(rows, "")
	golden.AssertSection(t, "../../../docs/guides/renderers/kustomizations.md", "cases", []byte(table))
}

// TestSecSchemaOfABuildStaysItsOwn builds a kustomization with a schema before one without: the
// list of the second, of a kind that the schema describes, is replaced and not merged.
func TestSecSchemaOfABuildStaysItsOwn(t *testing.T) {
	t.Parallel()
	_, with := readExample(t, "testdata/kustomizations/openapi.txtar")
	_, without := readExample(t, "testdata/kustomizations/openapi-after.txtar")
	for range 2 {
		for items, content := range map[int]map[string][]byte{2: with, 1: without} {
			objects, err := build(t, render.NewFiles(content), "")
			if err != nil {
				t.Fatal(err)
			}
			list, _, _ := unstructured.NestedSlice(objects[0].Object, "spec", "list")
			if len(list) != items {
				t.Errorf("got %v, want %d items", list, items)
			}
		}
	}
}
