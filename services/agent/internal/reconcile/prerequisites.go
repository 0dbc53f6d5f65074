// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/contract/expression"
	"github.com/leatdev/leat/services/agent/internal/confine"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/follow"
)

// prerequisite is an object that must exist, and be healthy or meet a condition, before a service
// may change. It is comparable.
type prerequisite struct {
	ref       inventory.Ref
	condition string // empty: the object must be healthy
}

// prerequisitesOf returns the objects that a service depends on.
func prerequisitesOf(s plan.Service) []prerequisite {
	var all []prerequisite
	for _, d := range s.Spec.Policy.DependsOn {
		if d.Object == nil {
			continue
		}
		kind := schema.FromAPIVersionAndKind(d.Object.APIVersion, d.Object.Kind)
		ref := inventory.Ref{
			Key:     inventory.Key{Group: kind.Group, Kind: kind.Kind, Namespace: d.Object.Namespace, Name: d.Object.Name},
			Version: kind.Version,
		}
		ref.Namespace = cmp.Or(ref.Namespace, s.Spec.NamespaceOrDefault())
		all = append(all, prerequisite{ref, d.Condition})
	}
	return all
}

// readerOf returns what reads the objects that a service depends on, and its bounds. The bounds are
// zero without such objects, or if the service may read nothing.
func readerOf(readers manifest.Readers, s plan.Service, wanted []prerequisite) (*confine.Reader, confine.Bounds, error) {
	if len(wanted) == 0 {
		return nil, confine.Bounds{}, nil
	}
	reader, err := readers.Reader(s)
	if err != nil {
		return nil, confine.Bounds{}, err
	}
	return reader, reader.Bounds(), nil
}

// judgeFunc returns the verdict on a live object.
type judgeFunc func(*unstructured.Unstructured) health.Verdict

// prerequisites follows the objects that a service depends on, and records why they do not suffice.
// It judges an object when the object changes, and not when the unit asks: a condition may cost
// milliseconds, and the unit asks with its lock held. It is safe for concurrent use. Nil follows
// nothing.
type prerequisites struct {
	all      []prerequisite
	bounds   confine.Bounds // of the service that depends on them
	changed  func()         // called when one of unmet has changed
	follower *follow.Follower

	mu    sync.Mutex
	unmet map[prerequisite]string // "" if the object suffices
}

// followPrerequisites follows the objects with the Reader of the dependent service: neither a
// condition nor a missing object must reveal what the service may not read. denied is the error if
// the service has no Reader. What is known without a look is news, too: changed is called for it, because the caller has
// judged the service before it followed these objects.
func followPrerequisites(
	ctx context.Context, reader *confine.Reader, denied error, all []prerequisite, judge judgeFunc, changed func(),
) *prerequisites {
	p := &prerequisites{all: all, changed: changed, unmet: map[prerequisite]string{}}
	if denied == nil {
		p.bounds = reader.Bounds()
	}
	conditions := map[prerequisite]*expression.Expression{}
	var refs []inventory.Ref
	for _, one := range all {
		condition, err := one.compile()
		switch {
		case denied != nil:
			p.unmet[one] = denied.Error()
		case err != nil:
			p.unmet[one] = fmt.Sprintf("the condition on %s cannot be read: %v", one.ref.Key, err)
		default:
			p.unmet[one] = one.unseen()
			conditions[one] = condition
			refs = append(refs, one.ref)
		}
	}
	slices.SortFunc(refs, func(a, b inventory.Ref) int { return a.Compare(b.Key) })
	p.follower = follow.Start(ctx, reader, slices.Compact(refs), func(ref inventory.Ref, seen follow.Sight) {
		for one, condition := range conditions {
			if one.ref == ref {
				p.set(one, one.evaluate(ctx, condition, seen, judge))
			}
		}
	})
	if len(conditions) < len(all) {
		changed()
	}
	return p
}

func (p *prerequisites) set(one prerequisite, why string) {
	p.mu.Lock()
	isNews := p.unmet[one] != why
	p.unmet[one] = why
	p.mu.Unlock()
	if isNews {
		p.changed()
	}
}

// areFor reports whether p follows exactly these objects, within these bounds.
func (p *prerequisites) areFor(all []prerequisite, bounds confine.Bounds) bool {
	if p == nil {
		return len(all) == 0
	}
	return slices.Equal(p.all, all) && p.bounds.Equal(bounds)
}

// missing returns why a service must wait: one sentence for each object of all that does not
// suffice. Objects that were read within other bounds do not count.
func (p *prerequisites) missing(all []prerequisite, bounds confine.Bounds) []string {
	var reasons []string
	for _, one := range all {
		if why := p.why(one, bounds); why != "" {
			reasons = append(reasons, why)
		}
	}
	return reasons
}

func (p *prerequisites) why(one prerequisite, bounds confine.Bounds) string {
	if p == nil || !p.bounds.Equal(bounds) {
		return one.unseen()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if why, isFollowed := p.unmet[one]; isFollowed {
		return why
	}
	return one.unseen()
}

// stop ends the watches. The caller must not hold a lock that changed takes.
func (p *prerequisites) stop() {
	if p != nil {
		p.follower.Stop()
	}
}

func (w prerequisite) unseen() string {
	return fmt.Sprintf("%s has not been examined yet", w.ref.Key)
}

// compile returns the condition, or nil for a prerequisite without a condition.
func (w prerequisite) compile() (*expression.Expression, error) {
	if w.condition == "" {
		return nil, nil
	}
	return expression.Compile(w.condition, expression.Bool)
}

// evaluate returns why the object does not suffice, or "" if it does.
func (w prerequisite) evaluate(
	ctx context.Context, condition *expression.Expression, seen follow.Sight, judge judgeFunc,
) string {
	switch {
	case confine.IsRefusal(seen.Err):
		return seen.Err.Error()
	case seen.Err != nil:
		return fmt.Sprintf("%s cannot be read: %v", w.ref.Key, seen.Err)
	case seen.Live == nil:
		return fmt.Sprintf("%s does not exist", w.ref.Key)
	case condition == nil:
		if verdict := judge(seen.Live); verdict.State != health.Healthy {
			return fmt.Sprintf("%s is %s", w.ref.Key, verdict.Sentence())
		}
		return ""
	}
	holds, err := condition.Holds(ctx, seen.Live.Object)
	switch {
	case errors.Is(err, expression.ErrMissing), err == nil && !holds:
		return fmt.Sprintf("%s does not meet %q", w.ref.Key, w.condition)
	case err != nil:
		return fmt.Sprintf("the condition on %s cannot be evaluated: %v", w.ref.Key, err)
	}
	return ""
}
