// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
)

func variables() render.Variables {
	return render.Variables{
		Values: map[string]string{
			"REPLICAS": "3", "PAUSED": "true", "SHARE": "0.5", "VERSION": "1.10", "CODE": "007", "HUGE": "9223372036854775808",
			"NAME": "shop", "EMPTY": "", "YES": "yes", "EVIL": "x\n  injected: true\n- \"'}{: #", "LOOP": "${NAME}",
		},
		Secrets: map[string]string{"PASSWORD": "hunter2", "PIN": "1234"},
	}
}

// rendered returns the one object of a manifest.
func rendered(t *testing.T, files map[string]string, v render.Variables) (map[string]any, *render.Substitution, error) {
	t.Helper()
	content := map[string][]byte{}
	for name, text := range files {
		content[name] = []byte(text)
	}
	s := render.NewSubstitution(v)
	objects, err := inProcess().Objects(t.Context(), render.NewFiles(content), "", renderstep.Auto, s)
	if err != nil {
		return nil, s, err
	}
	if len(objects) != 1 {
		t.Fatalf("got %d objects, want 1", len(objects))
	}
	return objects[0].Object, s, nil
}

// thing is a manifest of an unknown kind, with the text as its spec.
func thing(spec string) string {
	return "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: thing}\nspec:\n  v: " + spec + "\n"
}

func spec(t *testing.T, object map[string]any) any {
	t.Helper()
	fields, ok := object["spec"].(map[string]any)
	if !ok {
		t.Fatalf("got %v, want a spec", object)
	}
	return fields["v"]
}

func TestSubstitution(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		// Types: a single unquoted expression has the type that its value spells.
		`${REPLICAS}`:         int64(3),
		`"${REPLICAS}"`:       "3",
		`'${REPLICAS}'`:       "3",
		`!!str ${REPLICAS}`:   "3",
		"|-\n    ${REPLICAS}": "3",
		`${PAUSED}`:           true,
		`"${PAUSED}"`:         "true",
		`${SHARE}`:            0.5,
		`${VERSION}`:          "1.10",
		`${CODE}`:             "007",
		`${HUGE}`:             "9223372036854775808",
		`${YES}`:              "yes",
		`${EMPTY}`:            "",
		`${REPLICAS}${EMPTY}`: "3",
		`1${REPLICAS}`:        "13",
		// The grammar.
		`a-${NAME}-b`:                   "a-shop-b",
		`${NAME:-other}`:                "shop",
		`${NONE:-5}`:                    int64(5),
		`${NONE:=other}`:                "other",
		`${EMPTY:-other}`:               "other",
		`${NONE:-}`:                     "",
		`${NONE:-a ${NAME} b}`:          "a shop b",
		`${NONE:-${ALSO_NONE:-c}}`:      "c",
		`${NAME:-${NONE}}`:              "shop",
		`${NONE:-https://x/y?z=1}`:      "https://x/y?z=1",
		`$${NAME}`:                      "${NAME}",
		`$$${NAME}`:                     "$${NAME}",
		`a $${NAME} ${NAME}`:            "a ${NAME} shop",
		`${NONE:-$${NAME}`:              "${NAME",
		`$NAME $$ $(NAME) $$(NAME) { }`: "$NAME $$ $(NAME) $$(NAME) { }",
		// The content of a value is only text.
		`${EVIL}`:     "x\n  injected: true\n- \"'}{: #",
		`x: ${EVIL}`:  nil,
		`"${LOOP}"`:   "${NAME}",
		`é${NAME}ü→`:  "éshopü→",
		`${PASSWORD}`: "hunter2",
		`"${PIN}"`:    "1234",
	} {
		object, _, err := rendered(t, map[string]string{"a.yaml": thing(text)}, variables())
		if want == nil {
			if err == nil {
				t.Errorf("%s: got %v, want an error", text, object)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: got %v, want %v", text, err, want)
			continue
		}
		if diff := cmp.Diff(want, spec(t, object)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestSubstitutionRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`${NONE}`:                     "Thing thing: the service's configuration has no variable NONE; add it",
		`"${B} ${A} ${B:-x} ${NAME}"`: "no variable A, B; add",
		`${NONE:-${ALSO_NONE}}`:       "no variable ALSO_NONE;",
		`"${}"`:                       `Thing thing: spec.v: ${} is not a variable: write ${NAME}`,
		`"${1}"`:                      "${1} is not a variable",
		`"${{ github.ref }}"`:         "${{ github.ref }} is not a variable",
		`"${NAME^^}"`:                 "${NAME^^} is not a variable",
		`"${NAME"`:                    "${NAME is not a variable",
		`"a ${NAME:-b"`:               "${NAME:-b is not a variable",
		`"x ${NAME.b} and what follows goes on and on and on"`: "${NAME.b} and what follows goes on and o… is not a variable",
		`"` + strings.Repeat("${A:-", 9) + `"`:                 "nested too deeply",
	} {
		_, _, err := rendered(t, map[string]string{"a.yaml": thing(text)}, variables())
		if invalid := new(render.Error); !errors.As(err, &invalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want …%s…", text, err, want)
		}
		if missing := new(render.VariableError); errors.As(err, &missing) != strings.Contains(want, "no variable ") {
			t.Errorf("%s: got %T in the chain, want a VariableError exactly where a variable is missing", text, missing)
		}
	}
}

// TestSubstitutionByPlace shows where text stays text, where nothing is replaced, and where secrets
// are not allowed.
func TestSubstitutionByPlace(t *testing.T) {
	t.Parallel()
	const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: "${NAME}-a", labels: {k: "${REPLICAS}"}}
spec:
  replicas: ${REPLICAS}
  selector: {matchLabels: {k: "${REPLICAS}"}}
  template:
    metadata:
      annotations: {k: "${REPLICAS}"}
    spec:
      nodeSelector: {k: "${REPLICAS}"}
      containers:
      - name: c
        image: app:${VERSION}
        args: ["${REPLICAS}", "--x"]
        env:
        - name: REPLICAS
          value: ${REPLICAS}
        - name: P
          value: "${PIN}"
        ports:
        - containerPort: ${PIN}
`
	const want = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"k":"3"},"name":"shop-a"},"spec":{"replicas":3,` +
		`"selector":{"matchLabels":{"k":"3"}},"template":{"metadata":{"annotations":{"k":"3"}},"spec":{"containers":[{"args":["3","--x"],` +
		`"env":[{"name":"REPLICAS","value":"3"},{"name":"P","value":"1234"}],"image":"app:1.10","name":"c","ports":[{"containerPort":1234}]}],` +
		`"nodeSelector":{"k":"3"}}}}}`
	const kustomized = kustomization + "resources: [a.yaml]\npatches:\n- patch: |-\n    - {op: add, path: /spec/paused, value: false}\n    - {op: remove, path: /spec/paused}\n  target: {kind: Deployment}\n"
	for name, files := range map[string]map[string]string{
		"plain":     {"a.yaml": deployment},
		"kustomize": {"a.yaml": deployment, "kustomization.yaml": kustomized},
	} {
		object, s, err := rendered(t, files, variables())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := json.Marshal(object)
		if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		if !s.Tainted(object) || !s.Tainted(int64(1234)) || s.Tainted(int64(3)) || s.Tainted("shop-a") {
			t.Errorf("%s: secrets are not told from values", name)
		}
	}
	for name, manifest := range map[string]string{
		"name":       "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"${PASSWORD}\"}\n",
		"label":      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {a: \"${PASSWORD}\"}}\n",
		"kind":       "apiVersion: v1\nkind: ${PASSWORD}\nmetadata: {name: a}\n",
		"apiVersion": "apiVersion: ${NONE:-${PASSWORD}}\nkind: A\nmetadata: {name: a}\n",
	} {
		_, _, err := rendered(t, map[string]string{"a.yaml": manifest}, variables())
		if err == nil || !strings.Contains(err.Error(), "PASSWORD is a secret") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want a refusal that names the secret and does not tell it", name, err)
		}
	}
}

func TestSubstitutionOfManyObjects(t *testing.T) {
	t.Parallel()
	const manifest = `
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: one}
  data: &one
    a: ${NAME}
    k: "${REPLICAS}"
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: two, annotations: {leat.dev/substitute: disabled}}
  data: {a: "${NAME}", script: "${1}"}
- apiVersion: v1
  kind: Thing
  metadata: {name: three}
  alias: *one
  merged: {<<: *one, b: "${REPLICAS}"}
  listed: {<<: [*one, {plain: "${REPLICAS}"}]}
  more: {quoted: "${REPLICAS}", "key${NAME}": x}
---
# a comment alone
---
{"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "four"}, "n": "${REPLICAS}"}
`
	manifestFiles := render.NewFiles(map[string][]byte{"a.yaml": []byte(manifest)})
	objects, err := inProcess().Objects(t.Context(), manifestFiles, "", renderstep.Plain, render.NewSubstitution(variables()))
	if err != nil {
		t.Fatal(err)
	}
	var got []any
	for _, o := range objects {
		o.SetAnnotations(nil)
		delete(o.Object, "apiVersion")
		got = append(got, o.Object)
	}
	want := []any{
		map[string]any{"kind": "ConfigMap", "metadata": map[string]any{"name": "one"}, "data": map[string]any{"a": "shop", "k": "3"}},
		map[string]any{"kind": "ConfigMap", "metadata": map[string]any{"name": "two"}, "data": map[string]any{"a": "${NAME}", "script": "${1}"}},
		map[string]any{
			"kind": "Thing", "metadata": map[string]any{"name": "three"}, "alias": map[string]any{"a": "shop", "k": "3"},
			"merged": map[string]any{"a": "shop", "b": "3", "k": "3"}, "listed": map[string]any{"a": "shop", "k": "3", "plain": "3"},
			"more": map[string]any{"quoted": "3", "key${NAME}": "x"},
		},
		map[string]any{"kind": "Thing", "metadata": map[string]any{"name": "four"}, "n": "3"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Without variables nothing changes.
	objects, err = inProcess().Objects(t.Context(), manifestFiles, "", renderstep.Plain, nil)
	if err != nil || objects[0].Object["data"].(map[string]any)["a"] != "${NAME}" {
		t.Errorf("got %v, %v, want the texts as they are", objects, err)
	}
}

func TestSubstitutionIsBounded(t *testing.T) {
	t.Parallel()
	v := render.Variables{Values: map[string]string{"LONG": strings.Repeat("x", 64<<10)}}
	_, _, err := rendered(t, map[string]string{"a.yaml": thing(`"` + strings.Repeat("${LONG}", 1000) + `"`)}, v)
	if err == nil || !strings.Contains(err.Error(), "16 MiB") {
		t.Errorf("got %v, want a refusal", err)
	}
	// Deep and long texts neither exhaust the stack nor take quadratic time.
	for _, text := range []string{strings.Repeat("${", 1<<15), strings.Repeat("$${", 1<<15), strings.Repeat("${NONE:-", 1<<15), strings.Repeat("${NONE:-}", 1<<14)} {
		_, _, _ = rendered(t, map[string]string{"a.yaml": thing(`"` + text + `"`)}, v)
	}
}

// hostile are parts of values that have a meaning for YAML, or for the substitution itself.
var hostile = rapid.Map(rapid.SliceOf(rapid.SampledFrom([]string{
	"a", " ", "\n", "\n  ", "- ", ": ", "x: y", "#", "\"", "'", "{", "}", "[", "]", ",", "&a", "*a", "|", ">", "%", "@", "`", "!", "!!int 3", "---", "\n---\n", "...", "\t", "\\", "\\n",
	"$", "${A}", "$${", "~", "null", "true", "1", "0x1", "1e3", "<<", "\u00e9", "\u2028", "\ufeff", "\x00", "\r\n",
})), func(parts []string) string { return strings.Join(parts, "") })

// TestValuesBringNoStructure fills a document of a known shape with hostile values. Each of them
// must become the one scalar that it was inserted as, quoted or not.
func TestValuesBringNoStructure(t *testing.T) {
	t.Parallel()
	const manifest = `
apiVersion: example.com/v1
kind: Thing
metadata: {name: thing}
spec:
  quoted: "${A}"
  plain: ${A}
  mixed: x ${A} y ${B}
  defaulted: ${NONE:-${B}}
  flow: ["${A}", '${B}', {k: "${A}"}]
  block: |
    first ${A}
    second ${B}
  after: untouched
`
	rapid.Check(t, func(rt *rapid.T) {
		a, b := hostile.Draw(rt, "a"), hostile.Draw(rt, "b")
		v := render.Variables{Values: map[string]string{"A": a}, Secrets: map[string]string{"B": b}}
		for _, files := range []map[string]string{{"a.yaml": manifest}, {"a.yaml": manifest, "kustomization.yaml": kustomization + "resources: [a.yaml]\n"}} {
			object, _, err := rendered(t, files, v)
			if err != nil {
				rt.Fatal(err)
			}
			got, _ := object["spec"].(map[string]any)
			for _, typed := range []string{"plain", "defaulted"} {
				got[typed] = fmt.Sprint(got[typed])
			}
			flow, _ := got["flow"].([]any)
			for i := range flow {
				if _, nested := flow[i].(map[string]any); !nested {
					flow[i] = fmt.Sprint(flow[i])
				} else {
					flow[i] = map[string]any{"k": fmt.Sprint(flow[i].(map[string]any)["k"])}
				}
			}
			got["quoted"] = fmt.Sprint(got["quoted"])
			want := map[string]any{
				"quoted": a, "plain": a, "mixed": "x " + a + " y " + b, "defaulted": b,
				"flow": []any{a, b, map[string]any{"k": a}}, "block": "first " + a + "\nsecond " + b + "\n", "after": "untouched",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("(-want +got):\n%s", diff)
			}
		}
	})
}

// TestEscapedTextComesBack escapes any text, which must then be rendered unchanged.
func TestEscapedTextComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text := hostile.Draw(rt, "text")
		encoded, err := json.Marshal(strings.ReplaceAll(text, "${", "$${"))
		if err != nil {
			rt.Fatal(err)
		}
		object, _, err := rendered(t, map[string]string{"a.json": `{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a"},"spec":{"v":` + string(encoded) + `}}`}, render.Variables{})
		if err != nil {
			rt.Fatal(err)
		}
		if got := spec(t, object); got != text {
			rt.Fatalf("got %q, want %q", got, text)
		}
	})
}

// FuzzSubstitution looks for texts that break the substitution, and for secrets in its errors.
func FuzzSubstitution(f *testing.F) {
	for _, text := range []string{"${A}", "$${A}", "${A:-${B}}", "${", "${A:-", "}", "${A:=}", "a\n${B}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		encoded, err := json.Marshal(text)
		if err != nil || !utf8.ValidString(text) {
			t.Skip()
		}
		v := render.Variables{Values: map[string]string{"A": "value"}, Secrets: map[string]string{"B": "S3CR3T"}}
		object, _, err := rendered(t, map[string]string{"a.json": `{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a"},"spec":{"v":` + string(encoded) + `}}`}, v)
		if err != nil && strings.Contains(err.Error(), "S3CR3T") && !strings.Contains(text, "S3CR3T") {
			t.Errorf("the error tells the secret: %v", err)
		}
		if err == nil && !strings.Contains(text, "${") && spec(t, object) != text {
			t.Errorf("got %q, want %q", spec(t, object), text)
		}
	})
}

// TestExample renders the examples for a cluster with minimal settings.
func TestExample(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../examples/configuration/deploy/greeter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := inProcess().Objects(t.Context(), render.NewFiles(map[string][]byte{"greeter.yaml": content}), "", renderstep.Auto, render.NewSubstitution(render.Variables{
		Values: map[string]string{"REGION": "south"}, Secrets: map[string]string{"DATABASE_PASSWORD": "a: b"},
	}))
	if err != nil || len(objects) != 3 {
		t.Fatalf("got %d objects, %v, want 3", len(objects), err)
	}
	url := objects[0].Object["stringData"].(map[string]any)["database-url"]
	replicas := objects[1].Object["spec"].(map[string]any)["replicas"]
	script := objects[2].Object["data"].(map[string]any)["run.sh"]
	if url != "postgres://greeter:a: b@db.south.example.com/greeter" || replicas != int64(1) || !strings.Contains(fmt.Sprint(script), "${LISTEN:-:8080}") {
		t.Errorf("got %v, %v, %v", url, replicas, script)
	}
}
