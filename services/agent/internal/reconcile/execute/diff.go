// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/order"
	"github.com/leatdev/leat/services/agent/internal/reconcile/compare"
	"github.com/leatdev/leat/services/agent/internal/reconcile/ownership"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// Diff returns the changes that Sync would make. The API server computes them in a dry run. Objects
// of kinds that the manifests define themselves are reported as created, and hooks are not
// reported. An object that the cluster would reject is reported with its problem. Diff needs
// neither Turn nor Progress.
func (x *Executor) Diff(ctx context.Context, job Job) ([]report.Difference, error) {
	account, cluster, err := x.as(job.Service.Spec)
	if err != nil {
		return nil, err
	}
	r := x.newRun(job, account, cluster)
	r.isTrial = true
	if err := r.take(ctx, preparation(r)); err != nil {
		return nil, err
	}
	d := newDiffer(r, r.Service.ConfigDigest != r.record.Applied.ConfigDigest)
	d.isDetailed, d.fieldsLeft = true, maxFields
	if err := r.keepSkipped(ctx, &d.desired); err != nil {
		return nil, err
	}
	for _, o := range r.schedule.Objects() {
		if err := d.compareOrExplain(ctx, o); err != nil {
			return nil, err
		}
	}
	if err := d.addDeletions(ctx); err != nil {
		return nil, err
	}
	d.markGuarded()
	return d.found, nil
}

// Preview returns the changes that Sync would make, as counts and a list. Unlike Diff, it fails if
// the cluster would reject an object.
func (x *Executor) Preview(ctx context.Context, job Job) (*report.DryRun, error) {
	account, cluster, err := x.as(job.Service.Spec)
	if err != nil {
		return nil, err
	}
	job.IsChange = false
	r := x.newRun(job, account, cluster)
	r.isTrial = true
	var preview *report.DryRun
	err = r.take(ctx, append(preparation(r), step{"compare", func(ctx context.Context) (err error) {
		preview, err = newDiffer(r, false).preview(ctx)
		return err
	}}))
	return preview, err
}

// preview tries every object.
func (d *differ) preview(ctx context.Context) (*report.DryRun, error) {
	r, failures := d.r, &Failures{verb: "compare"}
	for _, o := range r.schedule.Objects() {
		err := d.compare(ctx, o)
		if isFatal(ctx, err) {
			return nil, err
		}
		if err != nil {
			failures.add(inventory.RefOf(o), err)
		}
	}
	if err := failures.orNil(); err != nil {
		return nil, err
	}
	wanted := d.desired.Len()
	if err := r.keepSkipped(ctx, &d.desired); err != nil {
		return nil, err
	}
	if err := d.addDeletions(ctx); err != nil {
		return nil, err
	}
	return summarize(d.found, wanted), nil
}

// summarize counts differences. Wanted is the number of objects in the manifests.
func summarize(found []report.Difference, wanted int) *report.DryRun {
	d := &report.DryRun{Unchanged: wanted}
	slices.SortStableFunc(found, func(a, b report.Difference) int { return int(b.Change) - int(a.Change) })
	for _, f := range found {
		switch f.Change {
		case report.Create:
			d.Created++
			d.Unchanged--
		case report.Update:
			d.Updated++
			d.Unchanged--
		case report.Delete:
			d.Deleted++
		case report.Adopt:
		case report.Impossible, report.Unchanged: // the first ends a preview earlier, and details show the second
		}
		if len(d.Changes) < report.MaxDryRunChanges {
			d.Changes = append(d.Changes, report.DryRunChange{Ref: f.Ref, Change: f.Change})
		}
	}
	return d
}

// differ collects differences between the manifests of a run and the cluster. Only the API server
// knows the result of an apply, including defaults and admission webhooks, so it computes that
// result. An object that needs another one first, such as one of a kind that the manifests define,
// is shown as the manifest has it.
type differ struct {
	r       *run
	secrets compare.Secrets
	desired inventory.Set
	found   []report.Difference
	// isDetailed lists fields, too, and fieldsLeft is how many may still be listed.
	isDetailed bool
	fieldsLeft int
}

// maxFields bounds the fields of all objects of a comparison, since an answer that holds them is bounded.
const maxFields = 1000

// newDiffer returns a differ. isStale means that another configuration was applied last.
func newDiffer(r *run, isStale bool) *differ {
	return &differ{r: r, secrets: compare.Secrets{Substitution: r.manifests.Substitution, IsStale: isStale}}
}

// compareOrExplain compares an object, or reports why it cannot be applied. A returned error ends
// the comparison.
func (d *differ) compareOrExplain(ctx context.Context, o *unstructured.Unstructured) error {
	err := d.compare(ctx, o)
	if err == nil {
		return nil
	}
	ref := inventory.RefOf(o)
	if isFatal(ctx, err) {
		return fmt.Errorf("compare %s: %w", ref.Key, err)
	}
	if o.GetNamespace() == "" {
		if full, completeErr := complete(ctx, d.r.cluster, d.r.Service, o); completeErr == nil {
			ref = inventory.RefOf(full)
		}
	}
	d.found = append(d.found, report.Difference{Ref: ref, Change: report.Impossible, Problem: reason.ProblemOf(err)})
	return nil
}

// compare adds the changes that the run would make in an object.
func (d *differ) compare(ctx context.Context, o *unstructured.Unstructured) error {
	full, err := complete(ctx, d.r.cluster, d.r.Service, o)
	isUnknown := k8s.IsUnknownKind(err)
	if isUnknown {
		full, err = o, nil
	}
	if err != nil {
		return err
	}
	ref := inventory.RefOf(full)
	d.desired.Put(inventory.Object{Ref: ref})
	var live *unstructured.Unstructured
	if err = k8s.ErrNotFound; !isUnknown { // without a kind there is no object, and no scope to compare with limits
		live, err = d.r.cluster.Get(ctx, ref)
	}
	if order.IsCreatedOnly(full) {
		if full = withoutService(full); err == nil {
			return nil // an existing object stays as it is
		}
	}
	if errors.Is(err, k8s.ErrNotFound) {
		if d.r.Objects.IsDone(ref.Key, d.r.onceContent(full)) {
			return nil
		}
		return d.add(ref, report.Create, nil, full)
	}
	if err != nil {
		return err
	}
	after, err := d.dryRun(ctx, full, live)
	if err != nil {
		return err
	}
	return d.addUpdate(ref, live, after, full)
}

// addUpdate adds the difference between an object and what becomes of it, by field if details are wanted.
func (d *differ) addUpdate(ref inventory.Ref, live, after, manifest *unstructured.Unstructured) error {
	if !d.isDetailed {
		isAdoption, err := d.isAdoption(live, after)
		if err != nil {
			return err
		}
		if !isAdoption {
			return d.add(ref, report.Update, live, after)
		}
		d.found = append(d.found, report.Difference{Ref: ref, Change: report.Adopt})
		return nil
	}
	ignored, err := d.r.Rules.Ignored(manifest)
	if err != nil {
		return err
	}
	text, details, err := compare.Explain(live, after, manifest, ignored, d.secrets)
	if err != nil || text == "" && len(details.Ignored) == 0 {
		return err
	}
	found := report.Difference{Ref: ref, Change: report.Update, Unified: text}
	if text == "" {
		found.Change = report.Unchanged
	}
	found.Fields, found.Omitted = d.take(details.Fields, details.Omitted)
	found.Ignored, found.IgnoredOmitted = d.take(details.Ignored, details.IgnoredOmitted)
	d.found = append(d.found, found)
	return nil
}

// isAdoption reports whether nothing becomes of an object but that it gets the labels of a service.
func (d *differ) isAdoption(live, after *unstructured.Unstructured) (bool, error) {
	if k8s.ServiceOf(live) != "" || k8s.ServiceOf(after) == "" {
		return false, nil
	}
	after = after.DeepCopy()
	if k8s.Unmark(after); len(after.GetLabels()) == 0 {
		after.SetLabels(nil)
	}
	text, err := compare.Unified(live.DeepCopy(), after, d.secrets)
	return text == "", err
}

// take returns as many of the fields as may be listed, and how many are omitted then.
func (d *differ) take(all []fields.Difference, omitted int) (taken []fields.Difference, left int) {
	n := min(len(all), d.fieldsLeft)
	d.fieldsLeft -= n
	return all[:n], omitted + len(all) - n
}

// dryRun returns the result that the run would have for an existing object. It adopts nothing, so
// it does not show fields that only an adoption would remove.
func (d *differ) dryRun(ctx context.Context, full, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	key := inventory.RefOf(full).Key
	if err := d.checkClaim(ctx, key, live); err != nil {
		return nil, err
	}
	isRepair := d.r.Objects.IsRepair(key, d.r.Rules.Desired(full))
	after, err := d.r.submitter().DryRun(ctx, full, live, isRepair)
	if _, isImmutable := errors.AsType[*k8s.ImmutableError](err); isImmutable && d.r.Service.Spec.Policy.Recreate {
		return full, nil
	}
	return after, err
}

// checkClaim returns why the run could not claim an existing object, or nil. It claims nothing.
func (d *differ) checkClaim(ctx context.Context, k inventory.Key, live *unstructured.Unstructured) error {
	r, claimer := d.r, newClaimer(d.r)
	if claimer.isKnownByUID(k) {
		return nil
	}
	owner := cmp.Or(r.x.params.Ownership.Owner(k), k8s.ServiceOf(live), r.Service.Name)
	switch {
	case owner == r.Service.Name:
		return claimer.checkAdoption(live)
	case !r.x.params.Ownership.Yields(ctx, owner, k):
		return ownership.ClaimedBy(owner)
	}
	return nil
}

// addDeletions adds the objects that the run would delete.
func (d *differ) addDeletions(ctx context.Context) error {
	spec := d.r.Service.Spec
	if !spec.Prunes() {
		return nil
	}
	for _, o := range d.r.record.Objects.Minus(d.desired) {
		live, err := d.r.cluster.Get(ctx, o.Ref)
		if errors.Is(err, k8s.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if !inventory.Deletable(o.Key, o.Wish.And(inventory.WishOf(live.GetAnnotations())), spec.Policy.Deletion) {
			continue
		}
		if err := d.add(o.Ref, report.Delete, live, nil); err != nil {
			return err
		}
	}
	return nil
}

// add adds a difference, unless there is no change.
func (d *differ) add(ref inventory.Ref, change report.Change, before, after *unstructured.Unstructured) error {
	text, err := compare.Unified(before, after, d.secrets)
	if err == nil && text != "" {
		d.found = append(d.found, report.Difference{Ref: ref, Change: change, Unified: text})
	}
	return err
}

// markGuarded adds the guard's reason to deletions that it would stop.
func (d *differ) markGuarded() {
	record := &d.r.record
	var gone []inventory.Object
	for _, f := range d.found {
		if o, isListed := record.Objects.Get(f.Ref.Key); isListed && f.Change == report.Delete {
			gone = append(gone, o)
		}
	}
	departure := inventory.Departure{Base: record.guardBase(), Pruned: record.Pruned, Left: d.desired.Len(), Going: gone}
	isConfirmed := d.r.Service.Spec.PruneConfirmation == inventory.Digest(d.r.Service.UID, gone)
	isHeld, restoredAt := d.r.x.holds(departure)
	if !isHeld || isConfirmed {
		return
	}
	held := reason.Errorf(reason.PruneGuarded, "the guard would keep the service from deleting %d of %d objects", len(gone), departure.Base)
	if !restoredAt.IsZero() {
		held = reason.Errorf(reason.PruneGuarded, "the hub was restored from a backup at %s, so nothing is deleted until a person agrees", restoredAt.UTC().Format(time.RFC3339))
	}
	for i := range d.found {
		if d.found[i].Change == report.Delete {
			d.found[i].Problem = held
		}
	}
}
