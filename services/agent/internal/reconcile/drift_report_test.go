// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// drifted returns the drift in the status: object: field old -> new by manager.
func (w *world) drifted() (lines []string) {
	for _, o := range w.status("s").Drift {
		for _, f := range o.Fields {
			lines = append(lines, fmt.Sprintf("%s: %s %s -> %s by %s", o.Ref.Name, f.Path, f.Old, f.New, f.Manager))
		}
		if len(o.Fields) == 0 {
			lines = append(lines, o.Ref.Name+" gone")
		}
	}
	return lines
}

func (w *world) assertDrifted(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.drifted()); diff != "" {
		t.Errorf("drift (-want +got):\n%s", diff)
	}
}

// TestDriftReport examines each change once, and changes nothing.
func TestDriftReport(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		w.follow(t, syncpolicy.DriftReport, "a", "b", "c")
		reads := w.reads
		w.engine.Observe(w.edit(t, "b", setData("2")))
		pass(t, 500*time.Millisecond)
		w.assertDrifted(t, "b: data.value 1 -> 2 by leat")
		got := w.status("s")
		if got.Phase != report.Healthy || got.Problem == nil || got.Problem.Reason != reason.DriftDetected {
			t.Errorf("got %s, %+v, want it to be healthy, with DRIFT_DETECTED", got.Phase, got.Problem)
		}
		w.engine.Observe(w.edit(t, "b", func(o *unstructured.Unstructured) { o.Object["status"] = "x" }))
		pass(t, 5*time.Hour)
		if got := w.reads - reads; got != 1 {
			t.Errorf("reads for one change: got %d, want 1", got)
		}
		w.engine.Observe(w.edit(t, "b", setData("3")))
		w.engine.Observe(w.erase("c"))
		pass(t, 500*time.Millisecond)
		w.assertDrifted(t, "b: data.value 1 -> 3 by leat", "c gone")
		w.engine.Observe(w.edit(t, "b", setData("1"))) // they thought better of it
		pass(t, 500*time.Millisecond)
		w.assertDrifted(t, "c gone")
		w.assertApplied(t)
		if err := w.engine.Reconcile("s"); err != nil {
			t.Fatal(err)
		}
		pass(t, time.Second)
		w.assertDrifted(t)
		w.assertApplied(t, "c")
		if got := w.status("s"); got.Phase != report.Healthy || got.Problem != nil {
			t.Errorf("after a sync: got %s, %+v, want it to be well", got.Phase, got.Problem)
		}
	})
}

// TestDriftReportMasksSecrets changes an object with a secret of the configuration, and a Secret.
func TestDriftReportMasksSecrets(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		s := w.follow(t, syncpolicy.DriftReport, "a")
		s.ConfigDigest = "config"
		s.Bundles[0].Digest = w.pack(t, map[string]string{
			"a.yaml": manifest("a", "${PASSWORD}"),
			"b.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: b}\nstringData: {key: c2VjcmV0}\n",
		})
		w.variables = render.Variables{Secrets: map[string]string{"PASSWORD": "hunter22"}}
		w.plan(s)
		pass(t, time.Second)
		assertPhase(t, w, "s", report.Healthy)
		w.engine.Observe(w.edit(t, "a", setData("hunter22-theirs")))
		w.mu.Lock()
		secret := w.objects[inventory.Key{Kind: "Secret", Namespace: "default", Name: "b"}].DeepCopy()
		secret.Object["stringData"] = map[string]any{"key": "dGhlaXJz"}
		secret.SetResourceVersion("1000")
		w.objects[inventory.Key{Kind: "Secret", Namespace: "default", Name: "b"}] = secret
		w.mu.Unlock()
		w.engine.Observe(sight(secret))
		pass(t, time.Second)
		w.assertDrifted(t, "a: data.value (masked) -> (masked) by leat", "b: stringData.key (masked) -> (masked) by leat")
	})
}
