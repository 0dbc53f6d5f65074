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
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/reconcile/compare"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// explain looks into what others have changed, and notes it for the status. It changes nothing in the cluster.
func (r *run) explain(ctx context.Context, o *unstructured.Unstructured) error {
	ref := inventory.RefOf(o)
	found, state := report.ObjectDrift{Ref: ref}, r.unit.objects.DriftState(ref.Key)
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
	r.unit.objects.ReportDrift(found, state)
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

// rival reads the object as others have left it, if they insist: then people are told who it is. Nil where they do not, and
// where it cannot be read.
func (r *run) rival(ctx context.Context, o *unstructured.Unstructured) *unstructured.Unstructured {
	ref := inventory.RefOf(o)
	if !r.unit.objects.MayBeContested(ref.Key) {
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
	found := report.ObjectDrift{Ref: ref}
	if before != nil {
		found.Fields = compare.Fields(before, after, r.result.IsConfidential(o))
	}
	r.unit.objects.ReportContest(found, time.Now())
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
