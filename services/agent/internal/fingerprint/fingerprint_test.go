// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fingerprint_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/services/agent/internal/fingerprint"
)

const manager = "leat"

func parse(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(encoded); err != nil {
		t.Fatal(err)
	}
	return o
}

const manifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {a: b}}
spec:
  replicas: 2
  paused: false
  template: {spec: {containers: [{name: x, image: "i:1"}, {name: y, image: "i:2"}]}}
`

// TestDesired edits a manifest, and checks which edits count.
func TestDesired(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		old, new string
		same     bool
	}{
		"status":                    {"spec:", "status: {replicas: 2}\nspec:", true},
		"resourceVersion":           {"labels:", "resourceVersion: '7', uid: u, generation: 3, labels:", true},
		"managedFields":             {"labels:", "managedFields: [{manager: leat}], creationTimestamp: null, labels:", true},
		"order of keys":             {"name: web, namespace: shop", "namespace: shop, name: web", true},
		"whole float":               {"replicas: 2", "replicas: 2.0", true},
		"number":                    {"replicas: 2", "replicas: 3", false},
		"fraction":                  {"replicas: 2", "replicas: 2.5", false},
		"number as text":            {"replicas: 2", "replicas: '2'", false},
		"boolean":                   {"paused: false", "paused: true", false},
		"null":                      {"paused: false", "paused: null", false},
		"empty instead of null":     {"paused: false", "paused: {}", false},
		"absent":                    {"  paused: false\n", "", false},
		"label":                     {"a: b", "a: c", false},
		"another label":             {"a: b", "a: b, c: d", false},
		"namespace":                 {"namespace: shop", "namespace: other", false},
		"finalizer":                 {"labels:", "finalizers: [x], labels:", false},
		"order of items":            {"{name: x, image: \"i:1\"}, {name: y, image: \"i:2\"}", "{name: y, image: \"i:2\"}, {name: x, image: \"i:1\"}", false},
		"item":                      {"i:2", "i:3", false},
		"kind":                      {"Deployment", "StatefulSet", false},
		"version":                   {"apps/v1", "apps/v2", false},
		"field moved a level up":    {"template: {spec: {containers:", "template: {containers: {spec:", false},
		"status outside of the top": {"paused: false", "status: 1", false},
	} {
		if edited := strings.Replace(manifest, test.old, test.new, 1); edited == manifest {
			t.Errorf("%s: edits nothing", name)
		} else if got := fingerprint.Desired(parse(t, edited)) == fingerprint.Desired(parse(t, manifest)); got != test.same {
			t.Errorf("%s: same sum %v, want %v", name, got, test.same)
		}
	}
}

const live = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  uid: u1
  generation: 4
  resourceVersion: "12"
  labels: {leat.dev/service: s, other: theirs}
  annotations: {deployment.kubernetes.io/revision: "1"}
  managedFields:
  - manager: leat
    operation: Apply
    apiVersion: apps/v1
    time: "2026-01-01T00:00:00Z"
    fieldsType: FieldsV1
    fieldsV1:
      f:metadata: {f:labels: {f:leat.dev/service: {}}, f:finalizers: {'v:"example.test/keep"': {}}}
      f:spec:
        f:strategy: {}
        f:template:
          f:spec:
            f:containers:
              'k:{"name":"x"}':
                .: {}
                f:name: {}
                f:image: {}
                f:ports: {'k:{"containerPort":80,"protocol":"TCP"}': {.: {}, f:containerPort: {}}}
            f:tolerations: {}
  - manager: leat
    operation: Apply
    subresource: status
    apiVersion: apps/v1
    fieldsType: FieldsV1
    fieldsV1: {f:status: {f:note: {}}}
  - manager: kube-controller-manager
    operation: Update
    subresource: scale
    apiVersion: apps/v1
    fieldsType: FieldsV1
    fieldsV1: {f:spec: {f:replicas: {}}}
  finalizers: [example.test/keep, example.test/theirs]
spec:
  replicas: 2
  strategy: {type: Recreate}
  template:
    spec:
      containers:
      - {name: y, image: "sidecar:1"}
      - {name: x, image: "i:1", imagePullPolicy: Always, ports: [{containerPort: 80, protocol: UDP}, {containerPort: 80, protocol: TCP, hostPort: 8080}]}
      tolerations: [{key: a}]
status: {note: fine, replicas: 2}
`

// TestLive edits a live object, and checks which edits count as a change of Leat's fields.
func TestLive(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		old, new string
		same     bool
	}{
		"status":                       {"note: fine", "note: bad", true},
		"replicas of an autoscaler":    {"replicas: 2\n", "replicas: 9\n", true},
		"replicas taken from leat":     {"        f:strategy: {}\n", "        f:strategy: {}\n        f:replicas: {}\n", false},
		"resourceVersion":              {`"12"`, `"13"`, true},
		"generation":                   {"generation: 4", "generation: 5", true},
		"uid":                          {"uid: u1", "uid: u2", true},
		"time of the apply":            {"2026-01-01", "2026-01-02", true},
		"label of others":              {"other: theirs", "other: changed", true},
		"annotation of others":         {`revision: "1"`, `revision: "2"`, true},
		"label of leat":                {"leat.dev/service: s,", "leat.dev/service: t,", false},
		"label of leat removed":        {"f:labels: {f:leat.dev/service: {}}", "f:labels: {}", false},
		"defaulted field":              {"imagePullPolicy: Always", "imagePullPolicy: Never", true},
		"field of an item":             {"i:1", "i:2", false},
		"item of others":               {"sidecar:1", "sidecar:2", true},
		"order of items":               {"{containerPort: 80, protocol: UDP}, ", "", true},
		"field of others in a subitem": {"hostPort: 8080", "hostPort: 8081", true},
		"key of a subitem":             {"protocol: TCP, hostPort", "protocol: SCTP, hostPort", false},
		"atomic list":                  {"[{key: a}]", "[{key: a}, {key: b}]", false},
		"field that is a whole":        {"{type: Recreate}", "{type: RollingUpdate}", false},
		"finalizer of leat":            {"finalizers: [example.test/keep,", "finalizers: [", false},
		"finalizer of others":          {"keep, example.test/theirs]", "keep]", true},
		"being deleted":                {"uid: u1", "uid: u1\n  deletionTimestamp: \"2026-01-01T00:00:00Z\"", false},
		"name":                         {"name: web", "name: web2", false},
		"ownership of a subresource":   {"fieldsV1: {f:status: {f:note: {}}}", "fieldsV1: {f:status: {}}", true},
		"manager renamed":              {"- manager: leat", "- manager: other", false},
	} {
		if edited := strings.Replace(live, test.old, test.new, 1); edited == live {
			t.Errorf("%s: edits nothing", name)
		} else if got := fingerprint.Live(parse(t, edited), manager) == fingerprint.Live(parse(t, live), manager); got != test.same {
			t.Errorf("%s: same sum %v, want %v", name, got, test.same)
		}
	}
}

// TestStringData has a Secret that was applied in plain text: Leat owns fields that never exist.
func TestStringData(t *testing.T) {
	t.Parallel()
	secret := func(ours, theirs string) *unstructured.Unstructured {
		return parse(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"n","managedFields":[{"manager":"leat","operation":"Apply",
			"fieldsV1":{"f:stringData":{"f:ours":{}}}}]},"data":{"ours":"`+ours+`","theirs":"`+theirs+`"}}`)
	}
	if fingerprint.Live(secret("YQ==", "YQ=="), manager) == fingerprint.Live(secret("Yg==", "YQ=="), manager) {
		t.Error("a value that was applied does not count, want it to")
	}
	if fingerprint.Live(secret("YQ==", "YQ=="), manager) != fingerprint.Live(secret("YQ==", "Yg=="), manager) {
		t.Error("a value of others counts, want it not to")
	}
}

// TestOrderOfEntries has an object that was applied in two versions. The API server may list their
// entries in any order.
func TestOrderOfEntries(t *testing.T) {
	t.Parallel()
	entry := func(version, field string) string {
		return fmt.Sprintf(`{"manager":"leat","operation":"Apply","apiVersion":%q,"fieldsV1":{"f:spec":{"f:%s":{}}}}`, version, field)
	}
	object := func(entries ...string) *unstructured.Unstructured {
		return parse(t, `{"apiVersion":"v1","kind":"K","metadata":{"name":"n","managedFields":[`+strings.Join(entries, ",")+`]},"spec":{"a":1,"b":2}}`)
	}
	a, b := entry("v1", "a"), entry("v2", "b")
	if fingerprint.Live(object(a, b), manager) != fingerprint.Live(object(b, a), manager) {
		t.Error("the order of the entries counts, want it not to")
	}
	if fingerprint.Live(object(a, b), manager) == fingerprint.Live(object(a), manager) {
		t.Error("fields owned in a second version do not count, want them to")
	}
}

// TestKeys finds items by keys of every form.
func TestKeys(t *testing.T) {
	t.Parallel()
	for key, item := range map[string]string{
		`{"name":"a"}`:                   `{"name":"a"}`,
		`{"a":1,"b":"x","c":true}`:       `{"c":true,"b":"x","a":1}`,
		`{"a,b":"c}:{"}`:                 `{"a,b":"c}:{"}`,
		`{"name":"a\"b"}`:                `{"name":"a\"b"}`,
		`{"name":"\u003ca"}`:             `{"name":"<a"}`,
		`{"n":1.5}`:                      `{"n":1.5}`,
		`{"n":null}`:                     `{"n":null}`,
		`{"ip":"10.0.0.1","p":-9000000}`: `{"ip":"10.0.0.1","p":-9000000}`,
	} {
		object := func(value string) *unstructured.Unstructured {
			fields, err := json.Marshal(map[string]any{"f:list": map[string]any{"k:" + key: map[string]any{"f:value": map[string]any{}}}})
			if err != nil {
				t.Fatal(err)
			}
			return parse(t, `{"apiVersion":"v1","kind":"K","metadata":{"name":"n","managedFields":[{"manager":"leat","operation":"Apply","fieldsV1":`+
				string(fields)+`}]},"list":[{"name":"z","value":"9"},`+strings.TrimSuffix(item, "}")+`,"value":"`+value+`"}]}`)
		}
		if fingerprint.Live(object("1"), manager) == fingerprint.Live(object("2"), manager) {
			t.Errorf("key %s: the item was not found", key)
		}
	}
}

// TestMalformed shows that Live returns a sum for any content of managedFields.
func TestMalformed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		element := rapid.StringMatching(`(f|k|v|i|x)?:?[{}":,a1\\.-]{0,12}`)
		set := map[string]any{}
		for _, text := range rapid.SliceOfN(element, 0, 6).Draw(t, "set") {
			set[text] = map[string]any{element.Draw(t, "inner"): nil}
		}
		values := rapid.SampledFrom([]any{nil, "a", int64(1), true, []any{"a", map[string]any{"a": "a"}}, map[string]any{"a": []any{int64(1)}}})
		o := &unstructured.Unstructured{Object: map[string]any{
			"a": values.Draw(t, "a"), "1": values.Draw(t, "1"),
			"metadata": map[string]any{"managedFields": []any{map[string]any{"manager": manager, "operation": "Apply", "fieldsV1": set}, nil, "x"}},
		}}
		sum := fingerprint.Live(o, manager)
		if sum.IsZero() || sum != fingerprint.Live(o.DeepCopy(), manager) {
			t.Errorf("got %s, want the same twice, and not zero", sum)
		}
	})
}

// TestLargeTexts crosses the bounds of the buffer.
func TestLargeTexts(t *testing.T) {
	t.Parallel()
	object := func(length int, last string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"data": map[string]any{"a": strings.Repeat("x", length) + last, "b": int64(1), "c": strings.Repeat("y", length/2)},
		}}
	}
	for length := range 10_000 {
		if fingerprint.Desired(object(length, "1")) == fingerprint.Desired(object(length, "2")) {
			t.Fatalf("length %d: the last byte does not count", length)
		}
	}
}

func BenchmarkDesired(b *testing.B) {
	o := parse(b, manifest)
	b.ReportAllocs()
	for b.Loop() {
		fingerprint.Desired(o)
	}
}

func BenchmarkLive(b *testing.B) {
	o := parse(b, live)
	b.ReportAllocs()
	for b.Loop() {
		fingerprint.Live(o, manager)
	}
}
