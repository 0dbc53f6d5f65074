// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// deployed returns a service of one Deployment and a ConfigMap.
func (w *world) deployed(t *testing.T) plan.Service {
	t.Helper()
	return plan.Service{
		Name: "s", UID: "uid-s", SpecDigest: "spec", Spec: plan.Spec{HealthTimeout: time.Minute},
		Bundles: []plan.Bundle{{Commit: "c1", Digest: w.pack(t, map[string]string{
			"a.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 2}\n",
			"b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n",
		})}},
	}
}

// messageOf returns the message of the service's only unhealthy object, and how often symptoms were
// read.
func (w *world) messageOf(t *testing.T) (message string, examined int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	objects := w.statuses["s"].Objects
	if len(objects) != 1 {
		t.Fatalf("got unhealthy objects %+v, want the Deployment", objects)
	}
	return objects[0].Health.Message, w.examined
}

// rolledOut returns the observation that the Deployment has all of its replicas.
func (w *world) rolledOut() observe.Observation {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[inventory.Key{Group: "apps", Kind: "Deployment", Namespace: "default", Name: "web"}].DeepCopy()
	o.Object["status"] = map[string]any{
		"replicas": int64(2), "updatedReplicas": int64(2), "readyReplicas": int64(2), "availableReplicas": int64(2),
	}
	w.writes++
	o.SetResourceVersion(fmt.Sprint(w.writes))
	seen := sight(o)
	seen.Health = w.engine.Judge(o)
	return seen
}

// TestSymptomsOfHangingObjects follows a Deployment that makes no progress until it does.
func TestSymptomsOfHangingObjects(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		const unschedulable = "Pod web-1 cannot be scheduled: 0/3 nodes are available"
		w.symptom = unschedulable
		w.plan(w.deployed(t))
		pass(t, 9*time.Second)
		if message, examined := w.messageOf(t); examined != 0 || strings.Contains(message, unschedulable) {
			t.Errorf("after 9 s: got %q after %d readings, want none: most rollouts end earlier", message, examined)
		}
		pass(t, 2*time.Second)
		message, examined := w.messageOf(t)
		if examined != 1 || !strings.HasSuffix(message, "; "+unschedulable) || message == "; "+unschedulable {
			t.Errorf("after 11 s: got %q after %d readings, want the object's own message and the symptom", message, examined)
		}
		pass(t, time.Minute)
		if got := w.status("s"); got.Phase != report.Degraded || !strings.Contains(got.Problem.Message, unschedulable) {
			t.Errorf("past the health timeout: got %s, %v, want Degraded with the symptom", got.Phase, got.Problem)
		}
		w.mu.Lock()
		w.symptom = ""
		w.mu.Unlock()
		pass(t, time.Hour)
		if message, examined = w.messageOf(t); examined < 8 || examined > 20 || strings.Contains(message, unschedulable) {
			t.Errorf("after an hour: got %q after %d readings, want a reading about every 5 min, and the old symptom gone", message, examined)
		}
		w.engine.Observe(w.rolledOut())
		pass(t, time.Second)
		assertPhase(t, w, "s", report.Healthy)
		before := w.countExamined()
		pass(t, time.Hour)
		if got := w.countExamined() - before; got != 0 {
			t.Errorf("got %d readings while everything is healthy, want none", got)
		}
	})
}

// TestSecSymptomsAreMasked has a container that wrote a secret of its configuration when it ended.
func TestSecSymptomsAreMasked(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		w.variables = render.Variables{Secrets: map[string]string{"PASSWORD": "hunter2hunter2"}}
		w.symptom = strings.Repeat("x", 590) + "hunter2hunter2" + strings.Repeat("y", 1000)
		s := w.deployed(t)
		s.ConfigDigest = "config"
		w.plan(s)
		pass(t, 15*time.Second)
		message, examined := w.messageOf(t)
		if examined != 1 || strings.Contains(message, "hunter") || !strings.Contains(message, "xxx(masked)") || len(message) > 1000 {
			t.Errorf("got %q after %d readings, want the secret masked and the text cut", message, examined)
		}
	})
}

func (w *world) countExamined() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.examined
}
