// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/fields"
)

// benchmarked is an object of the size of a Deployment: Leat has applied a manifest with some
// containers and environment variables, and two others have set fields, too.
func benchmarked(b *testing.B) (wanted, live *unstructured.Unstructured) {
	b.Helper()
	text := "metadata: {labels: {l: '1', m: '1'}, annotations: {a: '1', b: '2'}, finalizers: [f]}\ndata: {a: '1', b: '2', c: '3'}\n" +
		"spec: {replicas: 3, paused: false, selector: {app: x}, rules: [x, y], limits: {cpu: '1', memory: 1Gi}, items: ["
	for i := range 3 {
		text += fmt.Sprintf("{name: c%d, image: 'image:%d', size: %d, env: [", i, i, i)
		for k := range 6 {
			text += fmt.Sprintf("{name: E%d, value: v%d}, ", k, k)
		}
		text += "]}, "
	}
	wanted = thing(b, text+"]}")
	s := newServer(b)
	if err := s.apply(b, "leat", wanted, true); err != nil {
		b.Fatal(err)
	}
	s.mustApply(b, "hpa", "spec: {replicas: 5, items: [{name: c0, image: 'image:9'}, {name: sidecar, image: x}]}")
	s.set(b, "controller", "9", "metadata", "annotations", "revision")
	s.mustApply(b, "leat", text+"]}")
	return wanted, s.live(b)
}

// The paths that objects without a change take: Settled is asked about every object that is
// checked, and Strip about every event of an object that has rules.

func BenchmarkSettled(b *testing.B) {
	wanted, live := benchmarked(b)
	b.ReportAllocs()
	for b.Loop() {
		if !fields.Settled(wanted, live) {
			b.Fatal("what was just applied is not settled")
		}
	}
}

func BenchmarkStrip(b *testing.B) {
	for name, pointers := range map[string][]string{
		"no rule": nil, "field": {"/spec/replicas"}, "item": {"/spec/items/[name=c1]/env/[name=E3]/value"}, "star": {"/spec/items/*/image"},
	} {
		b.Run(name, func(b *testing.B) {
			wanted, live := benchmarked(b)
			ignored := ignore(b, wanted, syncpolicy.IgnoreRule{Pointers: pointers})
			b.ReportAllocs()
			for b.Loop() {
				ignored.Strip(live)
			}
		})
	}
}

func BenchmarkShape(b *testing.B) {
	wanted, live := benchmarked(b)
	ignored := ignore(b, wanted, syncpolicy.IgnoreRule{Pointers: []string{"/spec/replicas", "/spec/items/*/image"}, Managers: []string{"hpa"}})
	b.ReportAllocs()
	for b.Loop() {
		ignored.Shape(wanted, live)
	}
}

func BenchmarkCompare(b *testing.B) {
	wanted, live := benchmarked(b)
	b.ReportAllocs()
	for b.Loop() {
		fields.Compare(live, wanted)
	}
}
