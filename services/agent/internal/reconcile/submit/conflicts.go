// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package submit

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// submission is the apply of one object, with the input for decisions about its conflicts.
type submission struct {
	cluster    k8s.Writer
	spec       plan.Spec
	shaped     *unstructured.Unstructured // the manifest without ignored fields
	ignored    fields.Ignored
	isRepair   bool
	isAdoption bool // fields of former deployers become Leat's
	options    k8s.ApplyOptions
}

// apply applies the manifest, and returns the conflicts in which it yielded. It first requests the
// conflicts and then decides. If none has to be reported, it leaves out the yielded fields and
// forces the others.
func (s submission) apply(ctx context.Context) (live *unstructured.Unstructured, yielded []k8s.Conflict, err error) {
	s.options.Force = s.forcesAll()
	for range maxAttempts {
		live, err = s.cluster.Apply(ctx, s.shaped, s.options)
		conflict, ok := errors.AsType[*k8s.ConflictError](err)
		if !ok {
			break
		}
		d := s.decide(conflict.Conflicts)
		if len(d.reported) > 0 {
			return nil, nil, k8s.NewConflictError(d.reported, s.options.Confidential)
		}
		s.shaped = fields.Without(s.shaped, k8s.FieldsOf(d.yielded)...)
		yielded = append(yielded, d.announced...)
		s.options.Force = len(d.forced) > 0
	}
	return live, yielded, err
}

// decision holds conflicts, grouped by their treatment.
type decision struct {
	reported, forced, yielded []k8s.Conflict
	announced                 []k8s.Conflict // yielded, although no policy ignores the field
}

func (s submission) decide(conflicts []k8s.Conflict) (d decision) {
	for _, c := range conflicts {
		if s.ignored.Manager(c.Manager) || s.ignored.Field(s.shaped, c.Field) { // set since the object was read
			d.yielded = append(d.yielded, c)
			continue
		}
		switch s.action(c.Manager) {
		case syncpolicy.ConflictForce:
			d.forced = append(d.forced, c)
		case syncpolicy.ConflictYield:
			d.yielded, d.announced = append(d.yielded, c), append(d.announced, c)
		case syncpolicy.ConflictReport:
			d.reported = append(d.reported, c)
		}
	}
	return d
}

// action returns how to treat conflicts with a manager: the action of the first matching rule. A
// change that undoes the manifest is drift, not a conflict of intentions, unless a rule names that
// manager.
func (s submission) action(manager string) syncpolicy.ConflictAction {
	for _, rule := range s.spec.Policy.Conflicts {
		if matchesAll(rule) && s.isRepair {
			break
		}
		if matchesAll(rule) || syncpolicy.Match(rule.Manager, manager) {
			return rule.Action
		}
	}
	if s.isRepair || s.spec.ForceConflicts || manager == fields.BeforeFirstApply || s.isAdoption && fields.Deployer(manager) {
		return syncpolicy.ConflictForce
	}
	return syncpolicy.ConflictReport
}

// forcesAll reports whether all conflicts would be forced, regardless of the manager, so that the
// first apply can force them.
func (s submission) forcesAll() bool {
	if !s.ignored.Empty() {
		return false
	}
	rules := s.spec.Policy.Conflicts
	switch {
	case len(rules) == 0:
		return s.isRepair || s.spec.ForceConflicts
	case matchesAll(rules[0]):
		return s.isRepair || rules[0].Action == syncpolicy.ConflictForce
	default:
		return false
	}
}

func matchesAll(rule syncpolicy.ConflictRule) bool {
	return rule.Manager == "" || rule.Manager == "*"
}
