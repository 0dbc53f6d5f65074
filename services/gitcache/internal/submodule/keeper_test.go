// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package submodule_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/lease/leasemem"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
	"github.com/leatdev/leat/services/gitcache/internal/submodule"
)

// registry is shared by the replicas, in memory: definitions, and the events about deleted ones.
type registry struct {
	mirror.EventLog
	set  *mirroring.Set
	defs map[string]mirror.Definition
	gone []string
}

func (r *registry) apply() {
	var defs []mirror.Definition
	for _, def := range r.defs {
		defs = append(defs, def)
	}
	r.set.Apply(defs)
}

func (r *registry) Put(_ context.Context, def mirror.Definition) error {
	r.defs[def.Name] = def
	r.apply()
	return nil
}

func (r *registry) Delete(_ context.Context, name string, _ int64) (mirror.Definition, bool, error) {
	def, ok := r.defs[name]
	delete(r.defs, name)
	r.apply()
	return def, ok, nil
}

func (r *registry) Append(_ context.Context, e mirror.Event) error {
	if e.Deleted {
		r.gone = append(r.gone, e.Repository)
	}
	return nil
}

func (r *registry) Members() []string { return nil }

// noBackend has no mirrors.
type noBackend struct{ mirror.Backend }

func newKeeper(t *testing.T, root mirror.Definition) (*submodule.Keeper, *registry) {
	t.Helper()
	r := &registry{defs: map[string]mirror.Definition{}}
	var err error
	r.set, err = mirroring.NewSet(mirroring.Deps{
		Backend: noBackend{}, Named: nil, Events: r, Leases: leasemem.New(), Peers: r, Replicas: nil, Objects: nil,
		Self: "http://self", Settings: mirroring.Settings{}, Logger: slog.New(slog.DiscardHandler),
		Tracer: tracenoop.NewTracerProvider().Tracer(""), Meter: metricnoop.NewMeterProvider().Meter(""),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.defs[root.Name] = root
	r.apply()
	return submodule.New(submodule.Params{
		Set: r.set, Registry: r, Mirrors: nil, Events: r, Logger: slog.New(slog.DiscardHandler),
		Check: func(mirror.Definition) error { return nil },
	}), r
}

// child has one submodule defined, and returns what became of that.
func (r *registry) child(t *testing.T) mirror.Definition {
	t.Helper()
	for _, def := range r.defs {
		if def.Parent != "" {
			return def
		}
	}
	t.Fatal("no submodule is defined")
	return mirror.Definition{}
}

// TestTidy follows changes of the root, and deletes its remains.
func TestTidy(t *testing.T) {
	t.Parallel()
	root := mirror.Definition{Name: "demo", UID: "uid", Version: 1, Definition: upstream.Definition{URL: "https://git.example.com/group/demo.git"}}
	k, r := newKeeper(t, root)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is fetched here: it is enough that the repository is defined
	link := submodule.Link{Root: "uid", Parent: "uid", Path: "lib", URL: "../lib.git", Commit: strings.Repeat("1", 40)}
	if err := k.Obtain(ctx, link); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the caller's cancellation", err)
	}
	uid, err := k.Locate(link)
	if def := r.child(t); err != nil || def.UID != uid || def.Parent != "demo" || def.URL != "https://git.example.com/group/lib.git" {
		t.Errorf("got %+v, want it as located at %s (%v)", def, uid, err)
	}
	root.Version, root.Credential = 2, upstream.Credential{Method: upstream.MethodBearer, Token: "new"}
	if err := errors.Join(r.Put(t.Context(), root), k.Tidy(t.Context())); err != nil {
		t.Fatal(err)
	}
	if def := r.child(t); def.Credential != root.Credential || def.Version != 2 || def.UID != uid {
		t.Errorf("got %+v, want the root's new credential", def)
	}
	name := r.child(t).Name
	if _, _, err := r.Delete(t.Context(), "demo", 0); err != nil {
		t.Fatal(err)
	}
	if err := k.Tidy(t.Context()); err != nil || len(r.defs) != 0 || len(r.gone) != 1 || r.gone[0] != name {
		t.Errorf("got definitions %v and deletions %v (%v), want the submodule deleted", r.defs, r.gone, err)
	}
}

// TestSubmodulesAreBounded refuses what a push could name without end.
func TestSubmodulesAreBounded(t *testing.T) {
	t.Parallel()
	k, r := newKeeper(t, mirror.Definition{Name: "demo", UID: "uid", Definition: upstream.Definition{URL: "https://git.example.com/group/demo.git"}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var err error
	for range 101 {
		err = k.Obtain(ctx, submodule.Link{
			Root: "uid", Parent: "uid", Path: "lib", URL: "../lib" + strings.Repeat("x", len(r.defs)), Commit: strings.Repeat("1", 40),
		})
	}
	if _, ok := errors.AsType[*submodule.UnavailableError](err); !ok || len(r.defs) != 101 {
		t.Errorf("got %v with %d definitions, want the last refused", err, len(r.defs))
	}
}
