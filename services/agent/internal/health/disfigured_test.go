// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/services/agent/internal/health"
)

// TestDisfigured judges objects of all kinds in which a field has an unexpected type. An unreadable
// field must neither end the process nor count as a permanent failure where a rule could not be
// evaluated.
func TestDisfigured(t *testing.T) {
	t.Parallel()
	all, library := append(samples(t, "core"), samples(t, "library")...), health.NewLibrary()
	rapid.Check(t, func(t *rapid.T) {
		picked := rapid.SampledFrom(all).Draw(t, "sample")
		o := picked.Object.DeepCopy()
		for range rapid.IntRange(1, 3).Draw(t, "times") {
			disfigure(t, o.Object)
		}
		verdict := library.Judge(o)
		if verdict.State < health.Healthy || verdict.State > health.Terminating {
			t.Fatalf("got %v, want a verdict", verdict)
		}
		if verdict.State != health.Healthy && verdict.Message == "" {
			t.Fatalf("got %v without a message, want one", verdict.State)
		}
	})
}

// disfigure replaces one value somewhere in the object.
func disfigure(t *rapid.T, fields map[string]any) {
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(fields))).Draw(t, "field")
	switch value := fields[name].(type) {
	case map[string]any:
		if len(value) > 0 && rapid.IntRange(0, 3).Draw(t, "deeper") > 0 {
			disfigure(t, value)
			return
		}
	case []any:
		if len(value) > 0 && rapid.Bool().Draw(t, "deeper") {
			i := rapid.IntRange(0, len(value)-1).Draw(t, "item")
			if item, ok := value[i].(map[string]any); ok && len(item) > 0 && rapid.Bool().Draw(t, "inside") {
				disfigure(t, item)
			} else {
				value[i] = anything(t)
			}
			return
		}
	}
	fields[name] = anything(t)
}

func anything(t *rapid.T) any {
	return rapid.SampledFrom([]any{
		nil, true, int64(-1), int64(7), 0.5, "", "text", []any{}, []any{nil, "x", int64(1)}, map[string]any{}, map[string]any{"type": int64(1)},
	}).Draw(t, "value")
}
