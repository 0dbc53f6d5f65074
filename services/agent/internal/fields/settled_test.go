// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/services/agent/internal/fields"
)

// TestSettledIsNoChange shows that applying a settled manifest changes nothing, and that a just
// applied one is settled.
func TestSettledIsNoChange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newServer(t)
		last := drawThing(t)
		if err := s.apply(t, "leat", last, true); err != nil {
			t.Fatalf("create: %v", err)
		}
		owned := len(s.live(t).GetManagedFields()) > 0 // by Leat, who has applied something
		if owned && !fields.Settled(last, s.live(t)) {
			t.Fatalf("what was just applied is not settled")
		}
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			act(t, s)
		}
		next := drawThing(t)
		if rapid.Bool().Draw(t, "the same again") {
			next = last
		}
		before := s.live(t)
		settled := fields.Settled(next, before)
		if err := s.apply(t, "leat", next, true); err != nil {
			t.Fatalf("apply: %v", err)
		}
		if diff := cmp.Diff(undated(before), undated(s.live(t))); settled && diff != "" {
			t.Fatalf("settled, and yet changed (-before +after):\n%s", diff)
		}
	})
}

// undated is an object without the times at which managers have set fields.
func undated(o *unstructured.Unstructured) map[string]any {
	entries, _ := o.Object["metadata"].(map[string]any)["managedFields"].([]any) // none where nothing is owned
	for _, entry := range entries {
		delete(entry.(map[string]any), "time")
	}
	return o.Object
}

func TestSettled(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.mustApply(t, "leat", "spec: {replicas: 1, items: [{name: a}, {name: b}]}")
	for text, want := range map[string]bool{
		"spec: {replicas: 1, items: [{name: a}, {name: b}]}":               true,
		"spec: {replicas: 2, items: [{name: a}, {name: b}]}":               false,
		"spec: {replicas: 1, items: [{name: b}, {name: a}]}":               false,
		"spec: {replicas: 1, items: [{name: a}]}":                          false,
		"spec: {items: [{name: a}, {name: b}]}":                            false,
		"spec: {replicas: 1, paused: true, items: [{name: a}, {name: b}]}": false,
		"spec: {replicas: 1, items: [{name: a}, {name: b, size: 1}]}":      false,
		"{spec: {replicas: 1, items: [{name: a}, {name: b}]}, data: {}}":   false,
		"{}": false,
	} {
		if got := fields.Settled(thing(t, text), s.live(t)); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
	if fields.Settled(thing(t, "spec: {replicas: 1}"), nil) {
		t.Error("what does not exist is settled")
	}
}
