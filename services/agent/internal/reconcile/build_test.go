// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// queue is a Renderer that runs one render at a time, each for buildTime.
type queue struct{ turns chan struct{} }

const buildTime = 30 * time.Second

// Build implements render.Renderer.
func (q queue) Render(ctx context.Context, in render.Input) (render.Output, error) {
	select {
	case q.turns <- struct{}{}:
		defer func() { <-q.turns }()
	case <-ctx.Done():
		return render.Output{}, context.Cause(ctx)
	}
	if !strings.HasPrefix(in.Service, "slow") {
		return render.Output{}, fmt.Errorf("the render is charged to %q, want its service", in.Service)
	}
	time.Sleep(buildTime)
	return render.Output{}, &render.LimitError{Path: in.Folder, Limit: render.LimitTime, Message: "takes too long", RetryAt: time.Now().Add(time.Hour)}
}

// TestSecBuildsHoldUpNoPlainService runs more slow kustomizations than the agent has slots. A plain
// service that arrives after them is applied at once. The problems of the slow ones name the
// exceeded limit.
func TestSecBuildsHoldUpNoPlainService(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reconcile.Settings{Workers: 2})
		w.renderer = queue{turns: make(chan struct{}, 1)}
		w.run(t)
		var services []plan.Service
		for i := range 10 {
			s := w.service(t, fmt.Sprint("slow", i))
			s.Bundles[0].Digest = w.pack(t, map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": manifest(fmt.Sprint("slow", i), "1")})
			services = append(services, s)
		}
		w.plan(services...)
		time.Sleep(time.Second)
		plain := w.service(t, "plain")
		plain.Bundles[0].Digest = w.pack(t, map[string]string{"a.yaml": manifest("plain", "1")})
		w.plan(append(services, plain)...)
		time.Sleep(time.Second)
		if applied, _ := w.count(); applied == 0 {
			t.Error("the plain service waits for builds of others")
		}
		time.Sleep(time.Duration(len(services)) * buildTime)
		problem := w.status("slow9").Problem
		if problem == nil || problem.Reason != reason.RenderLimit || !strings.Contains(problem.Message, "takes too long") {
			t.Errorf("got %v, want %s", problem, reason.RenderLimit)
		}
	})
}

// inTurn is a Renderer that renders one object at a time, each for buildTime.
type inTurn struct {
	turns chan struct{}
	text  string
}

// Build implements render.Renderer.
func (b inTurn) Render(ctx context.Context, in render.Input) (render.Output, error) {
	began := time.Now()
	b.turns <- struct{}{}
	defer func() { <-b.turns }()
	render.AddWait(ctx, time.Since(began))
	time.Sleep(buildTime)
	return renderText(ctx, b.text)
}

// TestRenderWait has builds wait for one another: how long each takes, and how long it waits, are
// told apart.
func TestRenderWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reconcile.Settings{Workers: 3})
		w.renderer = inTurn{turns: make(chan struct{}, 1), text: manifest("built", "1")}
		w.run(t)
		var services []plan.Service
		for i := range 3 {
			s := w.service(t, fmt.Sprint("s", i))
			s.Spec.Namespace = s.Name
			s.Bundles[0].Digest = w.pack(t, map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": manifest(s.Name, "1")})
			services = append(services, s)
		}
		w.plan(services...)
		time.Sleep(4 * buildTime)
		waits := map[time.Duration]bool{}
		for _, s := range services {
			timings := w.status(s.Name).Timings
			waits[timings.RenderWait] = true
			if timings.Render != buildTime {
				t.Errorf("%s: got %+v, want render to take %s", s.Name, timings, buildTime)
			}
		}
		if want := map[time.Duration]bool{0: true, buildTime: true, 2 * buildTime: true}; !maps.Equal(waits, want) {
			t.Errorf("got waits %v, want one after the other: %v", waits, want)
		}
	})
}

// TestProblemOfALimit checks that a problem keeps the message of a limit, also if an *Error around
// it names the file.
func TestProblemOfALimit(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("read: %w", &render.Error{Path: "a.yaml", Document: 2, Cause: &render.LimitError{Limit: render.LimitDepth, Message: "too deep"}})
	got := reason.ProblemOf(errors.Join(err))
	if got.Reason != reason.RenderLimit || !strings.Contains(got.Message, "a.yaml: document 2: too deep") {
		t.Errorf("got %v", got)
	}
}

// fixed is a Renderer that always returns the same objects.
type fixed string

// Render implements render.Renderer.
func (f fixed) Render(ctx context.Context, _ render.Input) (render.Output, error) {
	return renderText(ctx, string(f))
}

// renderText returns the objects of a manifest.
func renderText(ctx context.Context, text string) (render.Output, error) {
	files := render.NewFiles(map[string][]byte{"a.yaml": []byte(text)})
	return (&render.Engine{}).Render(ctx, render.Input{Files: files, Steps: []renderstep.Step{{Renderer: renderstep.Plain}}})
}

// TestDiffOfAKustomization compares a service that is built. A comparison has no slot that a build
// could release.
func TestDiffOfAKustomization(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reconcile.Settings{Workers: 1})
		w.renderer = fixed(manifest("built", "1"))
		w.run(t)
		s := w.service(t, "app")
		s.Bundles[0].Digest = w.pack(t, map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": manifest("built", "1")})
		s.Spec.Paused = true
		w.plan(s)
		synctest.Wait()
		differences, err := w.engine.Diff(t.Context(), "app")
		if err != nil || len(differences) != 1 || differences[0].Change != report.Create || differences[0].Ref.Name != "built" {
			t.Errorf("got %+v, %v, want that the built object would be created", differences, err)
		}
	})
}
