// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/expression"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// want is an object that has to be there. It is comparable.
type want struct {
	ref       inventory.Ref
	condition string // empty: it has to be healthy
}

// wantsOf lists the objects that a service depends on.
func wantsOf(s plan.Service) []want {
	var all []want
	for _, d := range s.Spec.Policy.DependsOn {
		if d.Object == nil {
			continue
		}
		kind := schema.FromAPIVersionAndKind(d.Object.APIVersion, d.Object.Kind)
		ref := inventory.Ref{
			Key:     inventory.Key{Group: kind.Group, Kind: kind.Kind, Namespace: d.Object.Namespace, Name: d.Object.Name},
			Version: kind.Version,
		}
		if ref.Namespace == "" {
			ref.Namespace = s.Spec.NamespaceOrDefault()
		}
		all = append(all, want{ref, d.Condition})
	}
	return all
}

// vigil follows the objects that a unit waits for. The unit's goroutine starts and ends it; everybody may ask it.
type vigil struct {
	unit  *unit
	wants []want
	spec  plan.Spec // of the service that waits, whose rights it looks with
	stop  context.CancelFunc
	group sync.WaitGroup

	mu  sync.Mutex
	why []string // of the wants: why they are not there; empty: they are
}

// look decides anew what the unit works on. It starts a vigil when the unit has to wait for objects, and ends it when all
// that waited for them is applied. In between it stays, so that what is there is known when a run is tried again.
func (u *unit) look(ctx context.Context, now time.Time) {
	u.mu.Lock()
	u.admit(now)
	var wants []want
	if u.order == follow && u.brings() {
		wants = wantsOf(u.newest)
	}
	last := u.vigil
	if last.follows(wants) {
		u.mu.Unlock()
		return
	}
	u.vigil = nil
	if len(wants) > 0 {
		u.vigil = startVigil(ctx, u, wants)
	}
	u.mu.Unlock()
	last.end()
}

func startVigil(ctx context.Context, u *unit, wants []want) *vigil {
	ctx, stop := context.WithCancel(ctx)
	l := &vigil{unit: u, wants: wants, spec: u.newest.Spec, stop: stop, why: make([]string, len(wants))}
	for i, w := range wants {
		l.why[i] = w.unseen()
		l.group.Go(func() { l.follow(ctx, i) })
	}
	return l
}

func (l *vigil) follow(ctx context.Context, i int) {
	w := l.wants[i]
	condition, err := w.compile()
	if err != nil {
		l.note(i, fmt.Sprintf("the condition on %s cannot be read: %v", w.ref.Key, err))
		return
	}
	cluster, err := l.unit.engine.as(l.spec)
	if err != nil {
		l.note(i, err.Error())
		return
	}
	cluster.Follow(ctx, w.ref, func(live *unstructured.Unstructured, err error) {
		l.note(i, w.judge(ctx, l.unit.engine, condition, live, err))
	})
}

// follows tells whether the vigil is for these objects. No vigil is for none.
func (l *vigil) follows(wants []want) bool {
	if l == nil {
		return len(wants) == 0
	}
	return slices.Equal(l.wants, wants)
}

// end stops following, and returns when nobody does any more.
func (l *vigil) end() {
	if l == nil {
		return
	}
	l.stop()
	l.group.Wait()
}

func (l *vigil) note(i int, why string) {
	l.mu.Lock()
	changed := l.why[i] != why
	l.why[i] = why
	l.mu.Unlock()
	if changed {
		signal(l.unit.wake)
	}
}

// unmet says why an object is not there yet, w being the i-th that somebody waits for; empty when it is.
func (l *vigil) unmet(i int, w want) string {
	if l == nil || i >= len(l.wants) || l.wants[i] != w {
		return w.unseen()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why[i]
}

func (w want) unseen() string {
	return fmt.Sprintf("%s was not looked at yet", w.ref.Key)
}

func (w want) compile() (*expression.Expression, error) {
	if w.condition == "" {
		return nil, nil //nolint:nilnil // no condition is as good as one
	}
	return expression.Compile(w.condition, expression.Bool)
}

// judge says why the object does not do; empty when it does.
func (w want) judge(ctx context.Context, e *Engine, condition *expression.Expression, live *unstructured.Unstructured, err error) string {
	switch {
	case err != nil:
		return fmt.Sprintf("%s cannot be seen: %v", w.ref.Key, err)
	case live == nil:
		return fmt.Sprintf("%s does not exist", w.ref.Key)
	case condition == nil:
		if verdict := e.Judge(live); verdict.State != health.Healthy {
			return fmt.Sprintf("%s is %s", w.ref.Key, sentence(verdict))
		}
		return ""
	}
	holds, err := condition.Holds(ctx, live.Object)
	switch {
	case errors.Is(err, expression.ErrMissing), err == nil && !holds:
		return fmt.Sprintf("%s does not meet %q", w.ref.Key, w.condition)
	case err != nil:
		return fmt.Sprintf("the condition on %s cannot be evaluated: %v", w.ref.Key, err)
	}
	return ""
}
