// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package clustertest is the suite that a cluster passes: a real one in the tests of package kube,
// and the one in memory in the tests of package reconcile.
package clustertest

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
)

// Subject is a cluster under test, with the actions of others in it.
type Subject struct {
	Cluster k8s.API
	// Inventories returns a store without any state but the cluster's.
	Inventories func() inventory.Store
	// Run observes the cluster until ctx is done.
	Run func(ctx context.Context, watches func(reconcile.Watches), sink Sink)
	// Create, Change and Remove act as another client. They report whether that was possible.
	Create func(o *unstructured.Unstructured) bool
	Change func(key inventory.Key, change func(*unstructured.Unstructured)) bool
	Remove func(key inventory.Key) bool
}

// Sink receives the observations of watches.
type Sink interface {
	Observe(o observe.Observation)
	Synced(kind schema.GroupKind, scope observe.Scope)
}

// Somebody is the field manager of other clients' changes.
const Somebody = "somebody"

// Run checks the promises of reconcile.Cluster and its neighbours, and the behaviour of Kubernetes
// on which the safety of deletion relies. The objects are ConfigMaps in the namespace default,
// named after the subtest.
func Run(t *testing.T, s Subject) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Subject){
		"missing":      testMissing,
		"create":       testCreate,
		"unchanged":    testUnchanged,
		"fields":       testFields,
		"conflict":     testConflict,
		"delete":       testDelete,
		"recreated":    testRecreated,
		"versions":     testVersions,
		"finalizers":   testFinalizers,
		"release":      testRelease,
		"dry-run":      testDryRun,
		"create only":  testCreateOnly,
		"observations": testObservations,
		"inventories":  testInventories,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// Object returns a ConfigMap that belongs to a service.
func Object(name, service, value string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": "default"}, "data": map[string]any{"value": value},
	}}
	if service != "" {
		o.SetLabels(map[string]string{k8s.ServiceLabel: service})
	}
	return o
}

func apply(t *testing.T, s Subject, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	live, err := s.Cluster.Apply(t.Context(), o, k8s.ApplyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return live
}

func entry(o *unstructured.Unstructured) inventory.Object {
	return inventory.Object{Ref: inventory.RefOf(o), UID: string(o.GetUID())}
}

func value(o *unstructured.Unstructured) string {
	text, _, _ := unstructured.NestedString(o.Object, "data", "value")
	return text
}

func get(t *testing.T, s Subject, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	live, err := s.Cluster.Get(t.Context(), inventory.RefOf(o))
	if err != nil {
		t.Fatal(err)
	}
	return live
}

func mustBeGone(t *testing.T, s Subject, o *unstructured.Unstructured) {
	t.Helper()
	if _, err := s.Cluster.Get(t.Context(), inventory.RefOf(o)); !errors.Is(err, k8s.ErrNotFound) {
		t.Errorf("get: got %v, want ErrNotFound", err)
	}
}

func testMissing(t *testing.T, s Subject) {
	o := Object("missing", "s", "1")
	mustBeGone(t, s, o)
	o.SetUID("5c1b0b44-36a5-4c29-9f6f-3b8a4a5d8f10")
	if remains, err := s.Cluster.Delete(t.Context(), entry(o), k8s.DeleteOptions{ResourceVersion: "1"}); remains != nil || err != nil {
		t.Errorf("delete: got %v, %v, want nothing", remains, err)
	}
	if err := s.Cluster.Release(t.Context(), entry(o)); err != nil {
		t.Errorf("release: got %v, want nothing", err)
	}
}

func testCreate(t *testing.T, s Subject) {
	live := apply(t, s, Object("create", "s", "1"))
	if live.GetUID() == "" || live.GetResourceVersion() == "" || value(live) != "1" || live.GetLabels()[k8s.ServiceLabel] != "s" {
		t.Errorf("got %v, want an object with uid, resource version, label and value", live.Object)
	}
	if got := get(t, s, live); got.GetUID() != live.GetUID() || got.GetResourceVersion() != live.GetResourceVersion() {
		t.Errorf("get: got %v, want what apply returned", got.Object)
	}
	managed := false
	for _, e := range live.GetManagedFields() {
		managed = managed || e.Manager == k8s.FieldManager
	}
	if !managed {
		t.Error("the object does not record Leat as a manager")
	}
}

func testUnchanged(t *testing.T, s Subject) {
	first := apply(t, s, Object("unchanged", "s", "1"))
	second := apply(t, s, Object("unchanged", "s", "1"))
	if first.GetResourceVersion() != second.GetResourceVersion() {
		t.Errorf("got %s, then %s, want no write", first.GetResourceVersion(), second.GetResourceVersion())
	}
	third := apply(t, s, Object("unchanged", "s", "2"))
	if third.GetUID() != first.GetUID() || third.GetResourceVersion() == first.GetResourceVersion() {
		t.Error("a change made another object, or no new version")
	}
}

// testFields checks that fields of others survive, and that Leat's own fields go when they leave
// the manifest.
func testFields(t *testing.T, s Subject) {
	o := Object("fields", "s", "1")
	_ = unstructured.SetNestedField(o.Object, "mine", "data", "mine")
	apply(t, s, o)
	s.Change(inventory.RefOf(o).Key, func(o *unstructured.Unstructured) {
		o.SetAnnotations(map[string]string{"example.test/theirs": "yes"})
	})
	live := apply(t, s, Object("fields", "s", "1"))
	if live.GetAnnotations()["example.test/theirs"] != "yes" {
		t.Error("an annotation of others went")
	}
	if _, found, _ := unstructured.NestedString(live.Object, "data", "mine"); found {
		t.Error("a field that left the manifest stayed")
	}
}

func testConflict(t *testing.T, s Subject) {
	o := Object("conflict", "s", "1")
	apply(t, s, o)
	s.Change(inventory.RefOf(o).Key, func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(o.Object, "theirs", "data", "value")
	})
	_, err := s.Cluster.Apply(t.Context(), o, k8s.ApplyOptions{})
	if problem := new(reason.Problem); !errors.As(err, &problem) || problem.Reason != reason.ApplyConflict {
		t.Fatalf("got %v, want APPLY_CONFLICT", err)
	}
	live, err := s.Cluster.Apply(t.Context(), o, k8s.ApplyOptions{Force: true})
	if err != nil || value(live) != "1" {
		t.Errorf("got %v, want the value taken", err)
	}
}

func testDelete(t *testing.T, s Subject) {
	live := apply(t, s, Object("delete", "s", "1"))
	remains, err := s.Cluster.Delete(t.Context(), entry(live), k8s.DeleteOptions{ResourceVersion: live.GetResourceVersion()})
	if remains != nil || err != nil {
		t.Errorf("got %v, %v, want it gone", remains, err)
	}
	mustBeGone(t, s, live)
}

func testRecreated(t *testing.T, s Subject) {
	first := apply(t, s, Object("recreated", "s", "1"))
	s.Remove(inventory.RefOf(first).Key)
	if !s.Create(Object("recreated", "", "theirs")) {
		t.Fatal("it cannot be made again")
	}
	if _, err := s.Cluster.Delete(t.Context(), entry(first), k8s.DeleteOptions{}); !errors.Is(err, k8s.ErrReplaced) {
		t.Errorf("delete: got %v, want ErrReplaced", err)
	}
	if err := s.Cluster.Release(t.Context(), entry(first)); !errors.Is(err, k8s.ErrReplaced) {
		t.Errorf("release: got %v, want ErrReplaced", err)
	}
	if live := get(t, s, first); live.GetUID() == first.GetUID() || value(live) != "theirs" {
		t.Errorf("got %v, want the other one as it was", live.Object)
	}
}

func testVersions(t *testing.T, s Subject) {
	live := apply(t, s, Object("versions", "s", "1"))
	s.Change(inventory.RefOf(live).Key, func(o *unstructured.Unstructured) {
		o.SetAnnotations(map[string]string{"leat.dev/prune": "disabled"})
	})
	_, err := s.Cluster.Delete(t.Context(), entry(live), k8s.DeleteOptions{ResourceVersion: live.GetResourceVersion()})
	if !errors.Is(err, k8s.ErrReplaced) {
		t.Errorf("got %v, want ErrReplaced: it has changed since", err)
	}
	if get(t, s, live).GetAnnotations()["leat.dev/prune"] != "disabled" {
		t.Error("the annotation is gone")
	}
}

func testFinalizers(t *testing.T, s Subject) {
	o := Object("finalizers", "s", "1")
	o.SetFinalizers([]string{"example.test/hold"})
	live := apply(t, s, o)
	remains, err := s.Cluster.Delete(t.Context(), entry(live), k8s.DeleteOptions{})
	if err != nil || remains == nil || remains.GetDeletionTimestamp() == nil || remains.GetUID() != live.GetUID() {
		t.Fatalf("got %v, %v, want an object on its way", remains, err)
	}
	if again, err := s.Cluster.Delete(t.Context(), entry(live), k8s.DeleteOptions{}); err != nil || again == nil {
		t.Errorf("second delete: got %v, %v, want the same", again, err)
	}
	s.Change(inventory.RefOf(live).Key, func(o *unstructured.Unstructured) { o.SetFinalizers(nil) })
	mustBeGone(t, s, live)
}

func testRelease(t *testing.T, s Subject) {
	live := apply(t, s, Object("release", "s", "1"))
	if !k8s.IsAppliedByLeat(live) {
		t.Fatalf("got %v, want Leat as the manager of its fields", live.Object)
	}
	if err := s.Cluster.Release(t.Context(), entry(live)); err != nil {
		t.Fatal(err)
	}
	got := get(t, s, live)
	if got.GetLabels()[k8s.ServiceLabel] != "" || value(got) != "1" || got.GetUID() != live.GetUID() || k8s.IsAppliedByLeat(got) {
		t.Errorf("got %v, want the same object without the label, and without Leat as a manager", got.Object)
	}
}

func testDryRun(t *testing.T, s Subject) {
	o := Object("dry-run", "s", "1")
	live, err := s.Cluster.Apply(t.Context(), o, k8s.ApplyOptions{DryRun: true})
	if err != nil || value(live) != "1" {
		t.Errorf("got %v, want what would become of it", err)
	}
	mustBeGone(t, s, o)
}

func testCreateOnly(t *testing.T, s Subject) {
	live, err := s.Cluster.CreateMissing(t.Context(), Object("create-only", "", "1"), k8s.ApplyOptions{})
	if err != nil || value(live) != "1" || !k8s.IsAppliedByLeat(live) {
		t.Fatalf("got %v, %v, want the new object, with Leat as the manager of its fields", live, err)
	}
	s.Change(inventory.RefOf(live).Key, func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"edited": "yes"}) })
	again, err := s.Cluster.CreateMissing(t.Context(), Object("create-only", "", "2"), k8s.ApplyOptions{Force: true})
	if err != nil || value(again) != "1" || again.GetUID() != live.GetUID() || again.GetAnnotations()["edited"] != "yes" {
		t.Errorf("got %v, %v, want the existing object as it is", again, err)
	}
}

func testInventories(t *testing.T, s Subject) {
	store := s.Inventories()
	record := inventory.Record{Service: "inventories", Prune: true, Base: 2, Objects: inventory.NewSet(entry(Object("x", "s", "1")))}
	for range 2 {
		if err := store.Save(t.Context(), record); err != nil {
			t.Fatal(err)
		}
	}
	if got := find(t, s, "inventories"); got == nil || !got.Objects.Equal(record.Objects) || !got.Prune || got.Base != 2 {
		t.Errorf("got %+v, want what was saved", got)
	}
	for range 2 {
		if err := store.Delete(t.Context(), "inventories"); err != nil {
			t.Fatal(err)
		}
	}
	if got := find(t, s, "inventories"); got != nil {
		t.Errorf("got %+v, want it gone", got)
	}
}

func find(t *testing.T, s Subject, service string) *inventory.Record {
	t.Helper()
	records, err := s.Inventories().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.Service == service {
			return &r
		}
	}
	return nil
}
