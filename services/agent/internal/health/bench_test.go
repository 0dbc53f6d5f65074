// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"runtime"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/health"
)

// sampleOf returns the sample with that name.
func sampleOf(t testing.TB, folder, name string) *unstructured.Unstructured {
	t.Helper()
	for _, s := range samples(t, folder) {
		if s.Case == name {
			return &s.Object
		}
	}
	t.Fatalf("got no sample %q in %s, want one", name, folder)
	return nil
}

// BenchmarkJudge measures the verdict on one object, which the watches request for every event.
func BenchmarkJudge(b *testing.B) {
	library := health.NewLibrary()
	for _, bench := range []struct{ name, folder, sample string }{
		{"Deployment", "core", "Deployment, all there"},
		{"ConfigMap", "core", "ConfigMap"},
		{"unknown-kind", "core", "foreign object, ready"},
		{"rule-Certificate", "library", "Certificate, issued"},
		{"rule-HTTPRoute", "library", "GRPCRoute, accepted"},
		{"rule-MachineDeployment", "library", "MachineDeployment, all there"},
	} {
		o := sampleOf(b, bench.folder, bench.sample)
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				library.Judge(o)
			}
		})
	}
	o := sampleOf(b, "core", "Deployment, all there")
	b.Run("kstatus-Deployment", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := status.Compute(o); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkFirst measures what a library costs until its first verdict by a rule, and how much
// memory it keeps. The environment of all expressions is created once for the whole process, before
// the measurement.
func BenchmarkFirst(b *testing.B) {
	o := sampleOf(b, "library", "Certificate, issued")
	health.NewLibrary().Judge(o)
	kept := make([]*health.Library, 0, 1024)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for b.Loop() {
		library := health.NewLibrary()
		library.Judge(o)
		kept = append(kept, library)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(kept)), "B-kept/op")
	runtime.KeepAlive(kept)
}
