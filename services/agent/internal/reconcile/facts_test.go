// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
)

// charts stands for Helm, which renders the same in the tests of manifest and of kube. Its chart has
// one ConfigMap, which shows whether the cluster serves gadgets, and a password that is made once.
type charts struct{}

// RenderStep implements render.StepRenderer.
func (charts) RenderStep(_ context.Context, in render.StepInput) (render.StepOutput, error) {
	const place = "password"
	made := render.Generated{place: in.Generated[place]}
	if made[place] == "" {
		made[place] = rand.Text()
	}
	knows := slices.Contains(in.Facts.Cluster.APIVersions, "gadgets.test/v1")
	text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {knows: %q, password: %q}\n",
		in.Facts.Service.Name, strconv.FormatBool(knows), made[place])
	return render.StepOutput{
		Documents: []render.Document{{Path: "templates/a.yaml", Text: []byte(text)}},
		Generated: made,
		Asked:     render.Asked{Facts: true, APIVersions: true},
	}, nil
}

// chart is the content of a service that charts renders.
var chart = map[string]string{"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n"}

func (w *world) serve(kinds ...string) {
	w.mu.Lock()
	w.served = kinds
	w.mu.Unlock()
	w.factsChanged.Notify()
}

// TestFacts changes the kinds of the cluster. The service whose templates read them is rendered
// again, and costs nothing at notices of no change.
func TestFacts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reconcile.Settings{})
		w.served = []string{"v1"}
		w.run(t)
		s := w.service(t, "asking")
		s.Bundles[0].Digest = w.pack(t, chart)
		plain := w.service(t, "plain")
		plain.Bundles[0].Digest = w.pack(t, map[string]string{"a.yaml": manifest("plain", "1")})
		w.plan(s, plain)
		knows := func() string {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, o := range w.objects {
				if o.GetName() == "asking" {
					text, _, _ := unstructured.NestedString(o.Object, "data", "knows")
					return text
				}
			}
			return ""
		}
		time.Sleep(time.Minute)
		if got := knows(); got != "false" {
			t.Fatalf("at first: got %q, want false", got)
		}
		w.serve("gadgets.test/v1", "v1")
		time.Sleep(time.Minute)
		if got := knows(); got != "true" {
			t.Errorf("after a new kind: got %q, want true", got)
		}
		w.mu.Lock()
		writes, asked := w.writes, w.factsAsked
		w.mu.Unlock()
		for range 20 { // a controller that keeps touching definitions
			w.serve("gadgets.test/v1", "v1")
			time.Sleep(20 * time.Second)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.writes != writes || w.factsAsked > asked+20 {
			t.Errorf("after 20 notices of no change: got %d writes and %d looks, want none and one each", w.writes-writes, w.factsAsked-asked)
		}
	})
}

// TestTrialsSaveNothing renders a chart that generates a password in a dry run: nothing is kept in
// the cluster, and the later apply equals the result of the dry run.
func TestTrialsSaveNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reconcile.Settings{})
		w.run(t)
		s := w.service(t, "shop")
		s.Bundles[0].Digest = w.pack(t, chart)
		s.Spec.Render = []renderstep.Step{{Renderer: renderstep.Helm}}
		s.Spec.DryRun = true
		w.plan(s)
		time.Sleep(time.Minute)
		kept := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.generated)
		}
		if n := kept(); n != 0 {
			t.Errorf("a dry run keeps values of %d services", n)
		}
		w.plan(applied(s))
		time.Sleep(time.Minute)
		if n := kept(); n != 1 {
			t.Errorf("got values of %d services kept, want 1", n)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if _, ok := w.objects[inventory.Key{Kind: "ConfigMap", Namespace: "default", Name: "shop"}]; !ok {
			t.Errorf("nothing was applied: got %v", fmt.Sprint(w.applied))
		}
	})
}

// applied returns the service with its dry run ended.
func applied(s plan.Service) plan.Service {
	s.Spec.DryRun = false
	s.SpecDigest += "-applied"
	return s
}
