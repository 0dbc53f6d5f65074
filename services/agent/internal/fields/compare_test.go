// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/fields"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	const wanted = "spec: {replicas: 1, paused: true, selector: {a: '1'}, rules: [x], limits: {cpu: 1000m}, items: [{name: a, image: '1'}, {name: b, image: '1'}]}\n" +
		"data: {a: '1', b: ''}\nmetadata: {finalizers: [f], labels: {l: '1'}}"
	for name, test := range map[string]struct {
		change func(t *testing.T, s *server)
		want   []fields.Change
	}{
		"nothing":   {change: func(*testing.T, *server) {}},
		"a number":  {func(t *testing.T, s *server) { s.set(t, "x", int64(9), "spec", "replicas") }, []fields.Change{{"spec.replicas", "1", "9", "x"}}},
		"a boolean": {func(t *testing.T, s *server) { s.set(t, "x", false, "spec", "paused") }, []fields.Change{{"spec.paused", "true", "false", "x"}}},
		"a text":    {func(t *testing.T, s *server) { s.set(t, "x", "9", "data", "a") }, []fields.Change{{"data.a", "1", "9", "x"}}},
		"a label":   {func(t *testing.T, s *server) { s.set(t, "x", "9", "metadata", "labels", "l") }, []fields.Change{{"metadata.labels.l", "1", "9", "x"}}},
		"removed": {
			func(t *testing.T, s *server) { s.set(t, "x", map[string]any{"b": ""}, "data") }, []fields.Change{{"data.a", "1", "", ""}},
		},
		"a map removed": {
			func(t *testing.T, s *server) {
				s.edit(t, "x", func(o *unstructured.Unstructured) { delete(o.Object, "data") })
			},
			[]fields.Change{{"data", `{"a":"1","b":""}`, "", ""}},
		},
		"an item":        {func(t *testing.T, s *server) { s.mustApply(t, "x", "spec: {items: [{name: b, image: '9'}]}") }, []fields.Change{{"spec.items[name=b].image", "1", "9", "x"}}},
		"an item added":  {change: func(t *testing.T, s *server) { s.mustApply(t, "x", "spec: {items: [{name: c, image: '9'}]}") }},
		"a field added":  {change: func(t *testing.T, s *server) { s.mustApply(t, "x", "data: {c: '9'}") }},
		"an atomic list": {func(t *testing.T, s *server) { s.mustApply(t, "x", "spec: {rules: [x, z]}") }, []fields.Change{{"spec.rules", `["x"]`, `["x","z"]`, "x"}}},
		"an atomic map":  {func(t *testing.T, s *server) { s.set(t, "x", "9", "spec", "selector", "a") }, []fields.Change{{"spec.selector.a", "1", "9", "x"}}},
		"the same quantity in other words": {
			change: func(t *testing.T, s *server) {
				s.set(t, "leat", "1", "spec", "limits", "cpu")
				s.mustApply(t, "leat", strings.Replace(wanted, "1000m", "'1'", 1))
			},
		},
		"another quantity": {
			func(t *testing.T, s *server) { s.set(t, "x", "2", "spec", "limits", "cpu") }, []fields.Change{{"spec.limits.cpu", "1000m", "2", "x"}},
		},
		"the last of several owners": {
			func(t *testing.T, s *server) {
				s.set(t, "x", int64(8), "spec", "replicas")
				s.set(t, "z", int64(9), "spec", "replicas")
			},
			[]fields.Change{{"spec.replicas", "1", "9", "z"}},
		},
		"in order": {
			func(t *testing.T, s *server) {
				s.set(t, "x", int64(9), "spec", "replicas")
				s.set(t, "x", "9", "data", "a")
			},
			[]fields.Change{{"data.a", "1", "9", "x"}, {"spec.replicas", "1", "9", "x"}},
		},
	} {
		s := newServer(t)
		s.mustApply(t, "leat", wanted)
		test.change(t, s)
		assertEqual(t, name, test.want, fields.Compare(s.live(t), thing(t, wanted)))
	}
}

// TestCompareIsBounded has more changes, and longer values, than anybody wants to read.
func TestCompareIsBounded(t *testing.T) {
	t.Parallel()
	data, other := map[string]any{}, map[string]any{}
	for i := range 1000 {
		data[fmt.Sprint(i)], other[fmt.Sprint(i)] = strings.Repeat("ä", 1000), strings.Repeat("ö", 1000)
	}
	live, wanted := thing(t, "{}"), thing(t, "{}")
	live.Object["data"], wanted.Object["data"] = other, data
	changes := fields.Compare(live, wanted)
	if len(changes) != fields.MaxChanges {
		t.Errorf("got %d changes, want %d", len(changes), fields.MaxChanges)
	}
	for _, c := range changes {
		if len(c.Old) > fields.MaxText || len(c.New) > fields.MaxText || !strings.HasSuffix(c.New, "ö…") {
			t.Fatalf("got %q, want it cut at a letter's end", c.New)
		}
	}
}

// TestCompareKeepsSecrets shows nothing of what a Secret holds.
func TestCompareKeepsSecrets(t *testing.T) {
	t.Parallel()
	secret := func(value string) *unstructured.Unstructured {
		return parsed(t, "{apiVersion: v1, kind: Secret, metadata: {name: x, annotations: {a: "+value+"}}, data: {a: "+value+"}, more: [{name: "+value+", v: "+value+"}]}")
	}
	got := fields.Compare(secret("hunter2"), secret("hunter3"))
	if text := fmt.Sprint(got); len(got) != 3 || strings.Contains(text, "hunter") {
		t.Errorf("got %s, want three changes that show nothing", text)
	}
}
