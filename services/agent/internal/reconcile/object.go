// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
	"github.com/leatdev/leat/services/agent/internal/reconcile/submit"
)

// applyOne applies an object if it differs from what is in the cluster, as far as it is Leat's. An object that is as it
// should be costs no request.
func (r *run) applyOne(ctx context.Context, o *unstructured.Unstructured) error {
	sum := r.sumOf(o)
	what := r.decide(o, sum)
	switch what {
	case observe.Keep:
		return nil
	case observe.Explain:
		return r.explain(ctx, o)
	case observe.Install, observe.Repair:
	}
	return r.write(ctx, o, sum, what)
}

// write applies an object whatever is known of it.
func (r *run) write(ctx context.Context, o *unstructured.Unstructured, sum fingerprint.Sum, what observe.Verdict) error {
	if r.service.Spec.CreateNamespace && o.GetNamespace() == r.service.Spec.NamespaceOrDefault() {
		if err := r.ensureNamespace(ctx); err != nil {
			return err
		}
	}
	var before *unstructured.Unstructured
	if what == observe.Repair {
		before = r.rival(ctx, o)
	}
	r.unit.objects.BeginApply(inventory.RefOf(o).Key, sum)
	live, err := r.submitter().Apply(ctx, o, r.origin(o, what == observe.Repair))
	if err != nil {
		return err
	}
	object := r.entry(o)
	object.UID = string(live.GetUID())
	r.wrote.Add(1)
	r.applied(sum, observe.Observation{
		Service: r.service.Name, Object: object, ResourceVersion: live.GetResourceVersion(), Health: r.engine.Judge(live),
		Fingerprint: r.rules.Live(live), Terminating: live.GetDeletionTimestamp() != nil,
	})
	if what == observe.Repair {
		r.corrected(ctx, o, before, live)
	}
	if isDefinition(o) {
		return r.cluster.AwaitDefined(ctx, live)
	}
	return nil
}

// applied records the cluster's answer to an apply. It may be called concurrently.
func (r *run) applied(sum fingerprint.Sum, o observe.Observation) {
	r.mu.Lock()
	known, _ := r.record.Objects.Get(o.Object.Key)
	known.Ref, known.UID = o.Object.Ref, o.Object.UID
	r.record.Objects.Put(known)
	r.mu.Unlock()
	r.unit.objects.EndApply(known, sum, o)
}

// announce notes of all objects that are about to get another manifest that they are neither the old nor the new until the
// cluster has answered, also for a process that comes after this one.
func (r *run) announce(ctx context.Context, prepared []*unstructured.Unstructured) {
	for _, o := range prepared {
		sum := r.sumOf(o)
		if r.decide(o, sum) != observe.Install {
			continue
		}
		r.unit.objects.SetUnknown(inventory.RefOf(o).Key)
	}
	r.unit.store(ctx)
}

// submitter returns what brings objects into the cluster.
func (r *run) submitter() submit.Submitter {
	return submit.Submitter{
		Cluster: r.cluster, Spec: r.service.Spec, Rules: r.rules, IsConfidential: r.result.IsConfidential, Announce: r.decided,
	}
}

// origin returns what is known of an object before it is submitted.
func (r *run) origin(o *unstructured.Unstructured, isRepair bool) submit.Origin {
	ref := inventory.RefOf(o)
	known, isListed := r.recorded(ref.Key)
	return submit.Origin{
		Foreign: r.strangers.take(ref.Key), IsRepair: isRepair,
		IsOtherVersion: isListed && known.UID != "" && known.Version != ref.Version,
	}
}

// recorded returns an object of the record, while others of its stage are being entered.
func (r *run) recorded(k inventory.Key) (inventory.Object, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.record.Objects.Get(k)
}

// sumOf returns the fingerprint of a manifest.
func (r *run) sumOf(o *unstructured.Unstructured) fingerprint.Sum { return r.rules.Desired(o) }

// Fingerprint returns the fingerprint of what Leat has set of an object in the cluster, without what its
// service ignores. It is fast, and safe for concurrent use.
func (e *Engine) Fingerprint(o *unstructured.Unstructured) fingerprint.Sum {
	u, err := e.unit(k8s.ServiceOf(o))
	if err != nil {
		return fingerprint.Live(o, k8s.FieldManager)
	}
	u.mu.Lock()
	rules := u.rules
	u.mu.Unlock()
	return rules.Live(o)
}
