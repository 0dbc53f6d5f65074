// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package migrationtest tests the translation of another tool's objects: by examples, and by attacks on each of their
// fields.
package migrationtest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/leatdev/leat/cli/internal/migration"
	"github.com/leatdev/leat/internal/contract/document"
)

var update = flag.Bool("update", false, "write what the examples become")

// Translation is what is tested.
type Translation struct {
	Tool      migration.Tool
	Translate func([]migration.Object, migration.Settings) migration.Result
	Settings  migration.Settings
	// IsNamed reports whether other objects may name one of this kind. Only these are there when another one is attacked.
	IsNamed func(kind string) bool
}

// examples returns the folders of testdata. The folder in of each has the objects; documents.yaml and entries.json
// beside it are what they become.
func examples(t testing.TB) []string {
	t.Helper()
	folders, err := filepath.Glob("testdata/*/in")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no examples (%v)", err)
	}
	for i, folder := range folders {
		folders[i] = filepath.Dir(folder)
	}
	return folders
}

// read returns the objects of an example.
func (x Translation) read(t testing.TB, example string) []migration.Object {
	t.Helper()
	objects, unread, err := migration.Read(t.Context(), x.Tool, []string{example + "/in"}, nil)
	if err != nil || len(unread) > 0 || len(objects) == 0 {
		t.Fatalf("read %s: %d objects, %v, %v", example, len(objects), unread, err)
	}
	return objects
}

// Examples compares what the examples become with what is written beside them. With the flag -update it writes that.
func (x Translation) Examples(t *testing.T) {
	t.Helper()
	for _, example := range examples(t) {
		t.Run(filepath.Base(example), func(t *testing.T) {
			t.Parallel()
			result := x.Translate(x.read(t, example), x.Settings)
			var documents bytes.Buffer
			if err := document.WriteYAML(&documents, result.Documents...); err != nil {
				t.Fatal(err)
			}
			entries, err := json.MarshalIndent(result.Entries, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			compare(t, example+"/documents.yaml", documents.Bytes())
			compare(t, example+"/entries.json", append(entries, '\n'))
			for _, d := range result.Documents {
				if err := migration.Validate(d); err != nil {
					t.Errorf("%s: the hub refuses it: %v", migration.ID(d), err)
				}
			}
			if diff := cmp.Diff(result.Entries, x.Translate(x.read(t, example), x.Settings).Entries); diff != "" {
				t.Errorf("the same import again says something else:\n%s", diff)
			}
		})
	}
}

func compare(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", file, diff)
	}
}

// password is in a URL that is put in place of each URL.
const password = "correct-horse"

// wrong are values that a committer may write in place of any other.
func wrong() []any {
	return []any{
		nil, "", "${{ self.name }}", "\u202e\x1b[31m{{.x}}", strings.Repeat("x", 5000), "../../etc", "https://user:" + password + "@host/x", true, 1.5,
		[]any{},
		[]any{nil, "a", map[string]any{}},
		map[string]any{},
		map[string]any{"a": []any{map[string]any{"": nil}}},
	}
}

// Attack puts wrong values in place of each field of each example. No text of an object makes a translation panic, lose an
// object, make a document that the hub refuses, or repeat a password.
func (x Translation) Attack(t *testing.T) {
	t.Helper()
	for _, example := range examples(t) {
		t.Run(filepath.Base(example), func(t *testing.T) {
			t.Parallel()
			objects := x.objects(t, example)
			for _, o := range objects {
				others := slices.DeleteFunc(slices.Clone(objects), func(other *unstructured.Unstructured) bool {
					return other == o || !x.IsNamed(other.GetKind())
				})
				for _, path := range paths(o.Object, nil) {
					for _, value := range wrong() {
						changed := o.DeepCopy()
						set(changed.Object, path, value)
						attacked := append(slices.Clone(others), changed)
						x.survive(t, attacked, fmt.Sprintf("%s, %v = %.60q", o.GetName(), path, fmt.Sprint(value)), isURL(path))
					}
				}
			}
		})
	}
}

// objects returns the objects of an example as they are in its files.
func (x Translation) objects(t *testing.T, example string) []*unstructured.Unstructured {
	t.Helper()
	var found []*unstructured.Unstructured
	tool := x.Tool
	tool.Wants = func(o *unstructured.Unstructured) bool {
		if x.Tool.Wants(o) {
			found = append(found, o)
		}
		return false
	}
	if _, _, err := migration.Read(t.Context(), tool, []string{example + "/in"}, nil); err != nil || len(found) == 0 {
		t.Fatalf("read %s: %d objects, %v", example, len(found), err)
	}
	return found
}

// isURL reports whether a field is one whose text may hold a password.
func isURL(path []any) bool {
	return slices.Contains([]any{"repoURL", "url", "password", "config"}, path[len(path)-1])
}

// survive translates attacked objects.
func (x Translation) survive(t *testing.T, objects []*unstructured.Unstructured, what string, isSecret bool) {
	t.Helper()
	var given []migration.Object
	for _, o := range objects {
		if o.Object["kind"] != nil && x.Tool.Wants(o) {
			given = append(given, migration.NewObject(o, "x"))
		}
	}
	result := x.Translate(given, x.Settings)
	if got := len(result.Entries) + unnamedMaps(given, result.Entries); got != len(given) {
		t.Errorf("%s: got %d entries of %d objects", what, got, len(given))
	}
	for _, d := range result.Documents {
		if err := migration.Validate(d); err != nil {
			t.Errorf("%s: the hub refuses %s: %v", what, migration.ID(d), err)
		}
	}
	if !isSecret {
		return
	}
	var text bytes.Buffer
	if err := document.WriteYAML(&text, result.Documents...); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	entries, err := json.Marshal(result.Entries)
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if strings.Contains(text.String(), password) || bytes.Contains(entries, []byte(password)) {
		t.Errorf("%s: the result repeats a password", what)
	}
}

// unnamedMaps returns how many ConfigMaps have no entry: nothing names them.
func unnamedMaps(given []migration.Object, entries []migration.Entry) int {
	count := 0
	for _, o := range given {
		if o.Kind == "ConfigMap" {
			count++
		}
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Object, "ConfigMap ") {
			count--
		}
	}
	return count
}

// paths returns the paths of all fields below a value, but not those that say what the object is.
func paths(value any, at []any) [][]any {
	var found [][]any
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if len(at) == 0 && (key == "apiVersion" || key == "kind") {
				continue
			}
			below := append(slices.Clone(at), key)
			found = append(append(found, below), paths(v[key], below)...)
		}
	case []any:
		for i, item := range v {
			below := append(slices.Clone(at), i)
			found = append(append(found, below), paths(item, below)...)
		}
	}
	return found
}

// set sets the value at a path.
func set(at any, path []any, value any) {
	switch parent := at.(type) {
	case map[string]any:
		key, _ := path[0].(string)
		if len(path) == 1 {
			parent[key] = runtime.DeepCopyJSONValue(value)
			return
		}
		set(parent[key], path[1:], value)
	case []any:
		index, _ := path[0].(int)
		if len(path) == 1 {
			parent[index] = runtime.DeepCopyJSONValue(value)
			return
		}
		set(parent[index], path[1:], value)
	}
}
