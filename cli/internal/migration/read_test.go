// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/cli/internal/migration"
)

// tool wants objects of the kind A.
func tool() migration.Tool {
	return migration.Tool{
		Marks: []string{"tool.example/"}, Also: []string{"ConfigMap"},
		Wants: func(o *unstructured.Unstructured) bool { return o.GetKind() == "A" || o.GetKind() == "ConfigMap" },
	}
}

// folder writes files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	top := t.TempDir()
	for name, content := range files {
		path := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

// TestRead finds the objects of all files, and says where each begins.
func TestRead(t *testing.T) {
	t.Parallel()
	top := folder(t, map[string]string{
		"a.yaml":             "# first\napiVersion: tool.example/v1\nkind: A\nmetadata: {name: one, namespace: x}\n---\nkind: B\n---\n\napiVersion: tool.example/v1\nkind: A\nmetadata: {name: two}\n",
		"deep/list.json":     `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "tool.example/v1", "kind": "A", "metadata": {"name": "three"}}, 1]}`,
		"map.yml":            "kind: ConfigMap\napiVersion: v1\nmetadata: {name: map}\n",
		"other.yaml":         "{{ not yaml: [",
		"template.yaml":      "apiVersion: tool.example/v1\n{{ if .x }}\nkind: A\n",
		"broken.yaml":        "apiVersion: tool.example/v1\nkind: [A\n",
		"values.yaml":        "apiVersion: tool.example/v1\nkind: A\nmetadata: {name: {{.Name}}}\n---\n{? [a]: b}\n---\napiVersion: tool.example/v1\nkind: A\nmetadata: {name: eight}\n",
		"keys.yaml":          "# tool.example/\n? [a]\n: b\n---\nx: [",
		"patches.yaml":       "# tool.example/\n- op: add\n  path: /x\n",
		"brokenmap.yaml":     "kind: ConfigMap\nx: [",
		"notes.txt":          "apiVersion: tool.example/v1\nkind: A\nmetadata: {name: four}\n",
		".git/config.yaml":   "apiVersion: tool.example/v1\nkind: A\nmetadata: {name: five}\n",
		"old/yaml11/on.yaml": "apiVersion: tool.example/v1\nkind: A\nmetadata: {name: six}\nspec: {on: yes}\n",
	})
	if err := os.Symlink(filepath.Join(top, "a.yaml"), filepath.Join(top, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	stdin := strings.NewReader("apiVersion: tool.example/v1\nkind: A\nmetadata: {name: seven}\n")
	objects, unread, err := migration.Read(t.Context(), tool(), []string{top, filepath.Join(top, "notes.txt"), "-"}, stdin)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objects {
		got = append(got, o.String()+" "+strings.TrimPrefix(o.Origin, top+"/"))
	}
	want := []string{
		"A x/one a.yaml:2", "A two a.yaml:9", "A three deep/list.json:1", "ConfigMap map map.yml:1", "A six old/yaml11/on.yaml:1", "A eight values.yaml:7", "A four notes.txt:1",
		"A seven standard input:1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	var failed []string
	for _, e := range unread {
		failed = append(failed, e.Object+": "+e.Notes[0].Reason)
	}
	if want := []string{
		"broken.yaml: the file is not YAML: line 1: did not find expected ',' or ']'", `keys.yaml:2: Kubernetes does not read it: invalid map key: []interface {}{"a"}`, "template.yaml: the file is a template; import what it renders to",
		"values.yaml:1: the file is a template; import what it renders to",
	}; !slices.Equal(failed, want) {
		t.Errorf("got %q, want %q", failed, want)
	}
	for _, o := range objects {
		if o.Name == "six" {
			if on, isSet := o.Fields.Part("spec").Bool("true"); !on || !isSet {
				t.Error("got something else than true for yes under the key on, want both as Kubernetes reads them")
			}
		}
	}
	if _, _, err := migration.Read(t.Context(), tool(), []string{filepath.Join(top, "nothing")}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that the path does not exist", err)
	}
}

// TestSecFilesOfOthersAreBounded reads files that would take memory and time without end.
func TestSecFilesOfOthersAreBounded(t *testing.T) {
	t.Parallel()
	const header = "apiVersion: tool.example/v1\nkind: A\nmetadata: {name: bomb}\n"
	var bomb strings.Builder
	bomb.WriteString(header + "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 9 {
		bomb.WriteString(strings.ReplaceAll("aN: &aN [*aM, *aM, *aM, *aM, *aM, *aM, *aM, *aM, *aM, *aM]\n", "N", string(rune('1'+i))))
	}
	for name, content := range map[string]string{
		"a file without end":   header + strings.Repeat("#", 17<<20),
		"aliases of aliases":   strings.ReplaceAll(bomb.String(), "*aM", "*a0"),
		"an alias of itself":   header + "a: &a [*a]\n",
		"lists without an end": header + "a: " + strings.Repeat("[", 100_000) + "\n",
		"bytes":                header + "a: \xff\xfe\n",
	} {
		top := folder(t, map[string]string{"x.yaml": content})
		objects, unread, err := migration.Read(t.Context(), tool(), []string{top}, nil)
		if err != nil || len(objects)+len(unread) > 1 {
			t.Errorf("%s: got %d objects, %d unread, %v", name, len(objects), len(unread), err)
		}
	}
}
