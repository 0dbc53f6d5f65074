// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// submit applies one object and returns what the cluster made of it. Repair tells that the manifest is what was applied
// last, and that somebody has changed the object since: fields that they took are taken back, unless the policy names them.
//
// What is ignored is left out, or kept as it is, and where that leaves nothing to change, nothing is sent. An object that
// Leat has not made is adopted first.
func (r *run) submit(ctx context.Context, o *unstructured.Unstructured, repair bool) (*unstructured.Unstructured, error) {
	ignored, err := r.ignored(o)
	if err != nil {
		return nil, err
	}
	live, err := r.look(ctx, o, ignored)
	if err != nil {
		return nil, err
	}
	s := r.submission(o, live, ignored, repair)
	if fields.Settled(s.shaped, live) {
		return live, nil
	}
	applied, err := r.carryOut(ctx, s)
	if !isRejected(err) {
		return applied, err
	}
	// Fields that were set in a version of the kind that is gone make the API server refuse whatever is applied.
	if migrated, failed := r.migrate(ctx, inventory.RefOf(o)); failed != nil || migrated == nil {
		return applied, err
	}
	return r.carryOut(ctx, s)
}

func (r *run) submission(o, live *unstructured.Unstructured, ignored fields.Ignored, repair bool) submission {
	return submission{
		cluster: r.cluster, spec: r.service.Spec, shaped: ignored.Shape(o, live), ignored: ignored, repair: repair,
		options: k8s.ApplyOptions{Confidential: r.result.IsConfidential(o)},
	}
}

// carryOut applies what was shaped, and tells what was left to others.
func (r *run) carryOut(ctx context.Context, s submission) (*unstructured.Unstructured, error) {
	live, yielded, err := s.apply(ctx)
	if err == nil && len(yielded) > 0 {
		r.decided(ctx, inventory.RefOf(s.shaped), "some fields are left to others: "+k8s.DescribeConflicts(yielded, s.options.Confidential, "keeps"))
	}
	return live, err
}

// rehearse says what submit would make of live, and changes nothing. What would be taken from former deployers is still there.
func (r *run) rehearse(ctx context.Context, o, live *unstructured.Unstructured, repair bool) (*unstructured.Unstructured, error) {
	ignored, err := r.ignored(o)
	if err != nil {
		return nil, err
	}
	s := r.submission(o, live, ignored, repair)
	if fields.Settled(s.shaped, live) {
		return live, nil
	}
	s.options.DryRun, s.adopting = true, live.GetLabels()[k8s.ServiceLabel] == ""
	applied, _, err := s.apply(ctx)
	return applied, err
}

// isRejected tells refusals that say nothing more.
func isRejected(err error) bool {
	if _, ok := errors.AsType[*k8s.ImmutableError](err); ok {
		return false
	}
	problem, ok := errors.AsType[*reason.Problem](err)
	return ok && problem.Reason == reason.ApplyRejected
}

// look reads the object in the cluster, where that has to be known before o is applied. It returns nil where it has not, and
// where there is none.
func (r *run) look(ctx context.Context, o *unstructured.Unstructured, ignored fields.Ignored) (*unstructured.Unstructured, error) {
	ref := inventory.RefOf(o)
	if stranger := r.strangers.take(ref.Key); stranger != nil {
		return r.adopt(ctx, ref, stranger)
	}
	if known, ok := r.recorded(ref.Key); ok && known.UID != "" && known.Version != ref.Version {
		return r.migrate(ctx, ref)
	}
	if ignored.Empty() {
		return nil, nil
	}
	live, err := r.cluster.Get(ctx, ref)
	return live, k8s.IgnoreNotFound(err)
}

// recorded is how the record knows an object, while others of its stage are being entered.
func (r *run) recorded(k inventory.Key) (inventory.Object, bool) {
	r.unit.mu.Lock()
	defer r.unit.mu.Unlock()
	return r.record.Objects.Get(k)
}

// submission is the apply of one object, with what is decided about conflicts.
type submission struct {
	cluster  k8s.API
	spec     plan.Spec
	shaped   *unstructured.Unstructured
	ignored  fields.Ignored
	repair   bool
	adopting bool // what former deployers own becomes Leat's
	options  k8s.ApplyOptions
}

// submissions bounds how often an object is tried in a run when there are new conflicts every time.
const submissions = 4

// apply applies what was shaped, and returns the conflicts in which it yielded. Conflicts are seen first and decided then:
// unless one of them is to be reported, those that yield are left out, and the others are forced.
func (s submission) apply(ctx context.Context) (live *unstructured.Unstructured, yielded []k8s.Conflict, err error) {
	s.options.Force = s.forcesAll()
	for range submissions {
		live, err = s.cluster.Apply(ctx, s.shaped, s.options)
		conflict, ok := errors.AsType[*k8s.ConflictError](err)
		if !ok {
			break
		}
		d := s.decide(conflict.Conflicts)
		if len(d.report) > 0 {
			return nil, nil, k8s.NewConflictError(d.report, s.options.Confidential)
		}
		s.shaped = fields.Without(s.shaped, k8s.FieldsOf(d.yield)...)
		yielded = append(yielded, d.tell...)
		s.options.Force = len(d.force) > 0
	}
	return live, yielded, err
}

// decision sorts conflicts by what is done about them.
type decision struct {
	report, force, yield []k8s.Conflict
	tell                 []k8s.Conflict // those that yield, and that nobody has asked to ignore
}

func (s submission) decide(conflicts []k8s.Conflict) (d decision) {
	for _, c := range conflicts {
		if s.ignored.Manager(c.Manager) || s.ignored.Field(s.shaped, c.Field) { // set after we looked
			d.yield = append(d.yield, c)
			continue
		}
		switch s.action(c.Manager) {
		case syncpolicy.ConflictForce:
			d.force = append(d.force, c)
		case syncpolicy.ConflictYield:
			d.yield, d.tell = append(d.yield, c), append(d.tell, c)
		case syncpolicy.ConflictReport:
			d.report = append(d.report, c)
		}
	}
	return d
}

// action is what to do about the conflicts with a manager: what the first rule says that matches. A change that undoes what
// the manifest says is no conflict of intentions but drift, unless a rule is about that very manager.
func (s submission) action(manager string) syncpolicy.ConflictAction {
	for _, rule := range s.spec.Policy.Conflicts {
		if catchesAll(rule) && s.repair {
			break
		}
		if catchesAll(rule) || fields.Match(rule.Manager, manager) {
			return rule.Action
		}
	}
	if s.repair || s.spec.ForceConflicts || manager == fields.BeforeFirstApply || s.adopting && fields.Deployer(manager) {
		return syncpolicy.ConflictForce
	}
	return syncpolicy.ConflictReport
}

// forcesAll tells that all conflicts will be forced, whoever the manager is, so that none has to be seen first.
func (s submission) forcesAll() bool {
	if !s.ignored.Empty() {
		return false
	}
	rules := s.spec.Policy.Conflicts
	switch {
	case len(rules) == 0:
		return s.repair || s.spec.ForceConflicts
	case catchesAll(rules[0]):
		return s.repair || rules[0].Action == syncpolicy.ConflictForce
	default:
		return false
	}
}

func catchesAll(rule syncpolicy.ConflictRule) bool {
	return rule.Manager == "" || rule.Manager == "*"
}
