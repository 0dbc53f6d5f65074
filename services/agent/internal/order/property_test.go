// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package order_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/services/agent/internal/order"
)

// anyObjects draws objects of all dialects, each with a number of its own as its name.
func anyObjects(t *rapid.T) []*unstructured.Unstructured {
	n := rapid.IntRange(0, 30).Draw(t, "n")
	var all []*unstructured.Unstructured
	for i := range n {
		kind := rapid.SampledFrom([]string{
			"ConfigMap", "Namespace", "Job.batch", "Deployment.apps", "Role.rbac.authorization.k8s.io", "Mill.example.test",
			"ValidatingAdmissionPolicy.admissionregistration.k8s.io",
		}).Draw(t, "kind")
		var annotations []string
		add := func(values ...string) {
			if v := rapid.SampledFrom(append(values, "")).Draw(t, "annotation"); v != "" {
				annotations = append(annotations, v)
			}
		}
		add("leat.dev/phase=PreSync", "leat.dev/phase=Sync", "leat.dev/phase=Test", "", "", "")
		add("argocd.argoproj.io/hook=PreSync,PostSync", "argocd.argoproj.io/hook=Skip", "argocd.argoproj.io/hook=Sync", "", "")
		add("helm.sh/hook=pre-install,pre-upgrade", "helm.sh/hook=post-rollback", "helm.sh/hook=post-install,pre-delete", "", "")
		add(fmt.Sprint("leat.dev/wave=", rapid.IntRange(-2, 2).Draw(t, "wave")), "", "")
		add(fmt.Sprint("argocd.argoproj.io/sync-wave=", rapid.IntRange(-2, 2).Draw(t, "wave")), "", "")
		add(fmt.Sprint("helm.sh/hook-weight=", rapid.IntRange(-2, 2).Draw(t, "weight")), "", "")
		o := object(fmt.Sprintf("%s/%d", kind, i), annotations...)
		if o.GetAnnotations() != nil && rapid.IntRange(0, 5).Draw(t, "nameless") == 0 {
			o.SetName("")
			o.SetGenerateName("made-")
		}
		all = append(all, o)
	}
	return all
}

// TestProperties orders any valid objects. No object is lost or doubled, waves and ranks ascend,
// later stages wait for the stages that they need, and the order does not depend on the order of
// the arguments.
func TestProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		objects, first := anyObjects(t), rapid.Bool().Draw(t, "first")
		s, err := order.New(objects, first)
		if err != nil {
			t.Skip(err) // such as a missing name of an object that is not a hook
		}
		checkPlaces(t, s, objects)
		checkOrder(t, s)
		again, err := order.New(rapid.Permutation(objects).Draw(t, "permutation"), first)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(lines(s), lines(again)); diff != "" {
			t.Fatalf("another order of the same objects (-first +second):\n%s", diff)
		}
	})
}

func lines(s order.Schedule) (all []string) {
	for _, stage := range s.Stages {
		for _, m := range stage.Members {
			all = append(all, fmt.Sprint(stage, m.Object.GetName(), m.Object.GetAnnotations(), m.Hook, m.Deletion, m.Ordinal, stage.Awaited))
		}
	}
	return all
}

func checkPlaces(t *rapid.T, s order.Schedule, objects []*unstructured.Unstructured) {
	type key struct {
		object *unstructured.Unstructured
		phase  order.Phase
	}
	places, skipped := map[key]int{}, map[*unstructured.Unstructured]int{}
	for _, stage := range s.Stages {
		count := 0
		for _, m := range stage.Members {
			places[key{m.Object, stage.Phase}]++
		}
		for _, rank := range stage.Ranks() {
			count += len(rank.Members)
		}
		if count != len(stage.Members) || count == 0 {
			t.Fatalf("%s: got %d members in ranks, want %d, and at least one", stage, count, len(stage.Members))
		}
	}
	for _, o := range s.Skipped {
		skipped[o]++
	}
	for _, o := range objects {
		n := 0
		for k, times := range places {
			if k.object == o {
				n++
				if times != 1 {
					t.Fatalf("%s is in %s %d times", o.GetName(), k.phase, times)
				}
			}
		}
		if (n == 0) != (skipped[o] == 1) {
			t.Fatalf("%s %s: got %d phases, skipped %d times", o.GetKind(), o.GetName(), n, skipped[o])
		}
	}
}

func checkOrder(t *rapid.T, s order.Schedule) {
	phases := []order.Phase{order.Foundation, order.PreSync, order.Sync, order.PostSync, order.SyncFail, order.Test, order.PreDelete, order.PostDelete}
	last := 0
	for i, stage := range s.Stages {
		if i > 0 {
			a, b := s.Stages[i-1], stage
			pa, pb := slices.Index(phases, a.Phase), slices.Index(phases, b.Phase)
			if pa > pb || pa == pb && a.Wave >= b.Wave {
				t.Fatalf("%s comes before %s", a, b)
			}
		}
		if slices.Contains(phases[1:4], stage.Phase) {
			last = i
		}
		for _, m := range stage.Members {
			if !m.Hook && stage.Phase != order.Foundation && stage.Phase != order.Sync {
				t.Fatalf("%s in %s is not a hook", m.Object.GetName(), stage)
			}
			if m.Hook == (m.Deletion == 0) {
				t.Fatalf("%s: got hook %v with deletion %d", m.Object.GetName(), m.Hook, m.Deletion)
			}
		}
	}
	for i, stage := range s.Stages {
		if want := i < last && stage.Phase != order.Foundation; stage.Awaited != want {
			t.Fatalf("%s: got awaited %v, want %v", stage, stage.Awaited, want)
		}
	}
}
