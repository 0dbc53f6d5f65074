// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/reconcile/compare"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// told is what is reported of an object, and the state that it is about: the same is not looked into twice.
type told struct {
	report.ObjectDrift

	server            fingerprint.Sum
	deleted, replaced bool
}

// about tells whether the report is about the object as it is.
func (d *told) about(t *track) bool {
	return d != nil && d.server == t.Server && d.deleted == t.deleted && d.replaced == t.replaced
}

// explain looks into what others have changed, and notes it for the status. It changes nothing in the cluster.
func (r *run) explain(ctx context.Context, o *unstructured.Unstructured) error {
	ref := inventory.RefOf(o)
	r.unit.mu.Lock()
	t := r.unit.observed.get(ref.Key)
	found := &told{ObjectDrift: report.ObjectDrift{Ref: ref}, server: t.Server, deleted: t.deleted, replaced: t.replaced}
	r.unit.mu.Unlock()
	live, err := r.cluster.Get(ctx, ref)
	if err != nil && !errors.Is(err, k8s.ErrNotFound) {
		return err
	}
	if err == nil {
		wanted, err := r.wanted(ctx, o, live)
		if err != nil {
			return err
		}
		found.Fields = compare.Fields(live, wanted, r.result.IsConfidential(o))
	}
	r.unit.mu.Lock()
	defer r.unit.mu.Unlock()
	r.unit.told(found)
	return nil
}

// wanted is what a correction would make of the object. Where the API server would refuse that, it is the manifest.
func (r *run) wanted(ctx context.Context, o, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	wanted, err := r.submitter().DryRun(ctx, o, live, true)
	switch {
	case err == nil:
		return wanted, nil
	case fatal(ctx, err):
		return nil, err
	default:
		return o, nil
	}
}

// told notes what is to be reported of an object. u.mu is held.
func (u *unit) told(d *told) {
	if u.drifts == nil {
		u.drifts = map[inventory.Key]*told{}
	}
	u.drifts[d.Ref.Key] = d
}

// rival reads the object as others have left it, if they insist: then people are told who it is. Nil where they do not, and
// where it cannot be read.
func (r *run) rival(ctx context.Context, o *unstructured.Unstructured) *unstructured.Unstructured {
	ref := inventory.RefOf(o)
	r.unit.mu.Lock()
	t := r.unit.observed.get(ref.Key)
	insisted := t != nil && t.contest().count >= freeCorrections
	r.unit.mu.Unlock()
	if !insisted {
		return nil
	}
	live, err := r.cluster.Get(ctx, ref)
	if err != nil {
		return nil // the correction is what counts, and it has errors of its own
	}
	return live
}

// corrected tells people that what others have changed was put right.
func (r *run) corrected(ctx context.Context, o, before, after *unstructured.Unstructured) {
	ref := inventory.RefOf(o)
	r.engine.params.Logger.InfoContext(ctx, "object was changed by others and is put right",
		slog.String("leat.service", r.service.Name), slog.String("object", ref.String()))
	r.tell(ref, "was changed by others and is put right")
	found := &told{ObjectDrift: report.ObjectDrift{Ref: ref}}
	if before != nil {
		found.Fields = compare.Fields(before, after, r.result.IsConfidential(o))
	}
	r.unit.quarrel(found, time.Now())
}

// quarrel notes that an object had to be corrected once more.
func (u *unit) quarrel(d *told, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.observed.of(d.Ref.Key).contested(now) {
		u.told(d)
		u.calm = now.Add(contestWindow + time.Second)
	}
}

// drifted lists what is to be reported, and forgets what no longer is. u.mu is held.
func (u *unit) drifted(now time.Time) []report.ObjectDrift {
	if !now.Before(u.calm) {
		u.calm = time.Time{}
	}
	var all []report.ObjectDrift
	for key, d := range u.drifts {
		t := u.observed.get(key)
		if t == nil || !t.contested(now) && (!t.astray() || !d.about(t)) {
			delete(u.drifts, key)
			continue
		}
		all = append(all, d.ObjectDrift)
	}
	slices.SortFunc(all, func(a, b report.ObjectDrift) int { return a.Ref.Compare(b.Ref.Key) })
	return all[:min(len(all), report.MaxObjects)]
}

// driftProblem is what a person is told where everything else is well.
func (u *unit) driftProblem(drift []report.ObjectDrift) *reason.Problem {
	if len(drift) == 0 {
		return nil
	}
	var objects []inventory.Object
	for _, d := range drift {
		objects = append(objects, inventory.Object{Ref: d.Ref})
	}
	by := culprits(drift)
	if u.desired.Spec.Policy.Drift == syncpolicy.DriftCorrect {
		return reason.Errorf(reason.DriftDetected, "changed again and again%s, and put right less and less often: %s; "+
			"stop whatever changes them, or ignore those fields", by, describe(objects))
	}
	return reason.Errorf(reason.DriftDetected, "changed%s: %s; a sync puts them right", by, describe(objects))
}

// culprits names the managers who have changed fields.
func culprits(drift []report.ObjectDrift) string {
	var managers []string
	for _, d := range drift {
		for _, f := range d.Fields {
			if f.Manager != "" && f.Manager != k8s.FieldManager && !slices.Contains(managers, f.Manager) {
				managers = append(managers, f.Manager)
			}
		}
	}
	if len(managers) == 0 {
		return " by others"
	}
	return " by " + strings.Join(managers, ", ")
}
