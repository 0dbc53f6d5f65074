// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/leatdev/leat/internal/testkit/await"
)

// record holds all that the API server tells of the objects of a service, as it happens. What is deleted and made
// again between two looks, or changed and changed back, is in it.
type record struct {
	mu     sync.Mutex
	events []event
}

// event is one change of an object.
type event struct {
	kind   watch.EventType
	object *unstructured.Unstructured
}

// watched are the kinds of a service's objects, and of what controllers make of them.
var watched = map[string]string{
	"deployments": "/apis/apps/v1", "replicasets": "/apis/apps/v1", "cronjobs": "/apis/batch/v1",
	"services": "/api/v1", "configmaps": "/api/v1", "serviceaccounts": "/api/v1", "pods": "/api/v1",
}

// watch records the namespace of a service until the test ends.
func (o *takeover) watch(t *testing.T, service string) *record {
	t.Helper()
	r := &record{}
	for kind, group := range watched {
		stream := open(t, o.cluster.HTTPClient(), fmt.Sprintf("%s%s/namespaces/%s/%s?watch=true", o.cluster.Host(), group, service, kind), "")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			err := r.read(json.NewDecoder(stream.Body))
			if t.Context().Err() == nil {
				t.Errorf("the watch of %s in %s ended early: %v", kind, service, err)
			}
		}()
		t.Cleanup(func() {
			await.Closed(t, "the end of a watch", ended)
			_ = stream.Body.Close()
		})
	}
	return r
}

// read adds what a watch tells until it ends, which is an error.
func (r *record) read(stream *json.Decoder) error {
	for {
		var told metav1.WatchEvent
		if err := stream.Decode(&told); err != nil {
			return err
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(told.Object.Raw); err != nil {
			return err
		}
		r.mu.Lock()
		r.events = append(r.events, event{watch.EventType(told.Type), object})
		r.mu.Unlock()
	}
}

// upTo waits until the watches have told of each object as it was read, and returns how many events there are.
func (r *record) upTo(t *testing.T, all map[string]*unstructured.Unstructured) int {
	t.Helper()
	number := 0
	await.Poll(t, "the watches", pause, func() (bool, string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		number = len(r.events)
		for name, object := range all {
			if !slices.ContainsFunc(r.events, func(e event) bool {
				return e.object.GetUID() == object.GetUID() && e.object.GetResourceVersion() == object.GetResourceVersion()
			}) {
				return false, fmt.Sprintf("%s is not at %s after %d events", name, object.GetResourceVersion(), number)
			}
		}
		return true, ""
	})
	return number
}

// between returns what happened from one look at a service until another.
func between(before, after holdings) []event {
	before.record.mu.Lock()
	defer before.record.mu.Unlock()
	return slices.Clone(before.record.events[before.at:after.at])
}

// names returns the names of the objects by their UIDs.
func (h holdings) names() map[types.UID]string {
	all := map[types.UID]string{}
	for name, object := range h.all {
		all[object.GetUID()] = name
	}
	return all
}

// untouched fails the test unless the objects are the same ones, and have had the same content all the time, but for
// labels and annotations of an object itself.
func untouched(t *testing.T, when string, before, after holdings) {
	t.Helper()
	names := before.names()
	if diff := cmp.Diff(names, after.names()); diff != "" {
		t.Errorf("%s: objects (-before +after):\n%s", when, diff)
	}
	for _, e := range between(before, after) {
		name, isKnown := names[e.object.GetUID()]
		switch {
		case isKnown && e.kind == watch.Modified:
			for _, part := range []string{"spec", "data"} {
				if diff := cmp.Diff(before.all[name].Object[part], e.object.Object[part]); diff != "" {
					t.Errorf("%s: %s of %s (-before +since):\n%s", when, part, name, diff)
				}
			}
		case isKnown, e.kind == watch.Added: // what is neither is the end of a pod that was leaving
			t.Errorf("%s: %s %s %s", when, e.kind, e.object.GetKind(), e.object.GetName())
		}
	}
}

// same fails the test if somebody has written one of the objects.
func same(t *testing.T, when string, before, after holdings) {
	t.Helper()
	names := before.names()
	for _, e := range between(before, after) {
		if name, isKnown := names[e.object.GetUID()]; isKnown {
			t.Errorf("%s: %s %s (-before +since):\n%s", when, e.kind, name, cmp.Diff(before.all[name], e.object))
		}
	}
}

// lasting fails the test if one of the objects was deleted.
func lasting(t *testing.T, when string, before, after holdings) {
	t.Helper()
	names := before.names()
	for _, e := range between(before, after) {
		if name, isKnown := names[e.object.GetUID()]; isKnown && e.kind != watch.Modified {
			t.Errorf("%s: %s %s", when, e.kind, name)
		}
	}
}

// passedOn fails the test unless each object had an owner all the time, and its former owner has not written it since
// it left.
func passedOn(t *testing.T, before, after holdings, from, to string) {
	t.Helper()
	names, left := before.names(), map[string]bool{}
	for _, e := range between(before, after) {
		name, isKnown := names[e.object.GetUID()]
		if !isKnown {
			continue
		}
		found := managers(e.object)
		isOld := slices.Contains(found, from)
		if isOld && left[name] || !isOld && !slices.Contains(found, to) {
			t.Errorf("%s is managed by %q on its way from %s to %s", name, found, from, to)
		}
		left[name] = !isOld
	}
	for name := range before.all {
		if !left[name] {
			t.Errorf("%s did not pass from %s to %s", name, from, to)
		}
	}
}
