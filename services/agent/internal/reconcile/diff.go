// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/compare"
	"github.com/leatdev/leat/services/agent/internal/report"
)

type differ struct {
	cluster k8s.API
	run     *run // the one that would do it, and changes nothing
	service plan.Service
	desired inventory.Set
	found   []report.Difference

	secrets compare.Secrets
}

func (d *differ) object(ctx context.Context, o *unstructured.Unstructured) error {
	full, err := complete(ctx, d.cluster, d.service, o)
	if rejected := new(reason.Problem); errors.As(err, &rejected) && rejected.Reason == reason.ApplyRejected {
		full, err = o, nil // of a kind that does not exist yet
	}
	if err != nil {
		return err
	}
	ref := inventory.RefOf(full)
	d.desired.Put(inventory.Object{Ref: ref})
	live, err := d.cluster.Get(ctx, ref)
	if errors.Is(err, k8s.ErrNotFound) {
		return d.add(ref, report.Create, nil, full)
	}
	if err != nil {
		return err
	}
	after, err := d.after(ctx, full, live)
	if err != nil {
		return err
	}
	return d.add(ref, report.Update, live, after)
}

func (d *differ) pruned(ctx context.Context, objects inventory.Set) error {
	if !d.service.Spec.Prune {
		return nil
	}
	for _, o := range objects.Minus(d.desired) {
		live, err := d.cluster.Get(ctx, o.Ref)
		if errors.Is(err, k8s.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if !inventory.Deletable(o.Key, o.Wish.And(inventory.WishOf(live.GetAnnotations())), d.service.Spec.Policy.Deletion) {
			continue
		}
		if err := d.add(o.Ref, report.Delete, live, nil); err != nil {
			return err
		}
	}
	return nil
}

// add adds a difference, if there is one.
func (d *differ) add(ref inventory.Ref, change report.Change, before, after *unstructured.Unstructured) error {
	text, err := compare.Unified(before, after, d.secrets)
	if err == nil && text != "" {
		d.found = append(d.found, report.Difference{Ref: ref, Change: change, Unified: text})
	}
	return err
}
