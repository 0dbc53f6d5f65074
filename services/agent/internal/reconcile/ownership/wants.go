// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"cmp"
	"context"
	"time"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/order"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
)

// renderAgain is the minimum pause before a service that could not be rendered is rendered again to
// find its objects.
const renderAgain = time.Second

// wantedKeys are the objects that a service wants with certain inputs. It is immutable.
type wantedKeys struct {
	inputs inventory.Applied
	keys   map[inventory.Key]bool
	err    error // of rendering
	at     time.Time
}

func (w *wantedKeys) areCurrent(s plan.Service, now time.Time) bool {
	return w != nil && w.inputs.SameInputs(s.Inputs()) && (w.err == nil || now.Sub(w.at) < renderAgain)
}

// wants reports whether the service's newest entry contains an object, and whether that is certain.
// A service that is paused, or may not follow the plan yet, also keeps its current objects.
func (g *Registry) wants(ctx context.Context, m *Member, k inventory.Key) (isWanted, isCertain bool) {
	s := m.service.Standing()
	_, isHeld := m.service.Holds(k)
	isHeld = isHeld && !m.isLent(k, s)
	isCurrent := !s.IsTouched && s.Newest.Inputs().SameInputs(s.Applied)
	switch {
	case s.Order == decide.Leave || s.Order == decide.Hold:
		return false, true
	case s.Order == decide.Wait || isCurrent || s.Newest.Spec.DryRun:
		return isHeld, true
	case len(s.Newest.Bundles) == 0:
		return isHeld, !s.Applied.At.IsZero()
	}
	wanted := g.wantedBy(ctx, m, s)
	keepsOthers := wanted.err != nil || s.IsBehind || s.Newest.Spec.Paused
	return wanted.keys[k] || isHeld && keepsOthers, wanted.err == nil
}

// wantedBy returns the objects in a service's newest entry. Concurrent callers may render the same
// manifests.
func (g *Registry) wantedBy(ctx context.Context, m *Member, s Standing) *wantedKeys {
	m.mu.Lock()
	known := m.wanted
	m.mu.Unlock()
	if known.areCurrent(s.Newest, time.Now()) {
		return known
	}
	known = g.renderKeys(ctx, s.Newest, s.Applied)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wanted = known
	return known
}

// renderKeys renders a service to find the objects that it wants.
func (g *Registry) renderKeys(ctx context.Context, s plan.Service, applied inventory.Applied) *wantedKeys {
	w := &wantedKeys{inputs: s.Inputs(), keys: map[inventory.Key]bool{}, at: time.Now()}
	all, err := g.renderer.Render(ctx, s, applied)
	if err != nil {
		w.err = err
		return w
	}
	for _, o := range all.Objects {
		if order.IsCreatedOnly(o) {
			continue // it never becomes the service's
		}
		key := inventory.RefOf(o).Key
		isNamespaced, err := g.cluster.Namespaced(ctx, o.GroupVersionKind())
		if err != nil || !isNamespaced { // a kind that does not exist yet may become namespaced or not
			w.keys[inventory.Key{Group: key.Group, Kind: key.Kind, Name: key.Name}] = true
		}
		key.Namespace = cmp.Or(key.Namespace, s.Spec.NamespaceOrDefault())
		w.keys[key] = true
	}
	return w
}
