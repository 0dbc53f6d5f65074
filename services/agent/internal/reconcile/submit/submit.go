// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package submit brings one object at a time into the cluster. It leaves out the fields that a
// policy ignores, decides conflicts with other field managers, adopts objects that other tools have
// deployed, and moves fields out of API versions that are gone.
package submit

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// maxAttempts bounds how often one run submits an object that changes meanwhile, or that has new
// conflicts every time.
const maxAttempts = 4

// Submitter submits the objects of one service. All fields are required. It is safe for concurrent
// use.
type Submitter struct {
	Cluster k8s.API
	Spec    plan.Spec
	Rules   Rules
	// IsConfidential reports whether an object contains a secret of the service's configuration.
	IsConfidential func(o *unstructured.Unstructured) bool
	// Announce publishes a decision about an object that other managers share.
	Announce func(ctx context.Context, ref inventory.Ref, decision string)
}

// Origin is the known state of an object before it is submitted.
type Origin struct {
	// Foreign is the object in the cluster, if Leat did not create it.
	Foreign *unstructured.Unstructured
	// IsOtherVersion means that the object was last applied in another version of its kind.
	IsOtherVersion bool
	// IsRepair means that the manifest is the last applied one, and that others have changed the
	// object since. Leat takes changed fields back, unless the policy names them.
	IsRepair bool
}

// Apply applies o, which it does not modify, and returns the resulting object. It sends nothing if
// the policy ignores all differences.
func (s Submitter) Apply(ctx context.Context, o *unstructured.Unstructured, origin Origin) (*unstructured.Unstructured, error) {
	ignored, err := s.Rules.Ignored(o)
	if err != nil {
		return nil, err
	}
	live, err := s.prepareLive(ctx, inventory.RefOf(o), ignored, origin)
	if err != nil {
		return nil, err
	}
	sub := s.submission(o, live, ignored, origin.IsRepair)
	if fields.Settled(sub.shaped, live) {
		return live, nil
	}
	applied, err := s.carryOut(ctx, sub)
	if !isRejected(err) {
		return applied, err
	}
	// The API server rejects any apply while fields belong to a version of the kind that is gone.
	if migrated, failed := s.migrate(ctx, inventory.RefOf(o)); failed != nil || migrated == nil {
		return applied, err
	}
	return s.carryOut(ctx, sub)
}

// DryRun returns the result that Apply would have for live, and changes nothing. Fields that an
// adoption would remove from other tools stay in the result.
func (s Submitter) DryRun(ctx context.Context, o, live *unstructured.Unstructured, isRepair bool) (*unstructured.Unstructured, error) {
	ignored, err := s.Rules.Ignored(o)
	if err != nil {
		return nil, err
	}
	sub := s.submission(o, live, ignored, isRepair)
	if fields.Settled(sub.shaped, live) {
		return live, nil
	}
	sub.options.DryRun, sub.isAdoption = true, k8s.ServiceOf(live) == ""
	applied, _, err := sub.apply(ctx)
	return applied, err
}

// prepareLive returns the object in the cluster, adopted or migrated, if the apply depends on it.
// Otherwise, or if the object does not exist, it returns nil.
func (s Submitter) prepareLive(
	ctx context.Context, ref inventory.Ref, ignored fields.Ignored, origin Origin,
) (*unstructured.Unstructured, error) {
	switch {
	case origin.Foreign != nil:
		return s.adopt(ctx, ref, origin.Foreign)
	case origin.IsOtherVersion:
		return s.migrate(ctx, ref)
	case ignored.Empty():
		return nil, nil
	}
	live, err := s.Cluster.Get(ctx, ref)
	return live, k8s.IgnoreNotFound(err)
}

// carryOut applies a submission, and announces the conflicts in which it yielded.
func (s Submitter) carryOut(ctx context.Context, sub submission) (*unstructured.Unstructured, error) {
	live, yielded, err := sub.apply(ctx)
	if err == nil && len(yielded) > 0 {
		s.Announce(ctx, inventory.RefOf(sub.shaped),
			"some fields are left to others: "+k8s.DescribeConflicts(yielded, sub.options.Confidential, "keeps"))
	}
	return live, err
}

func (s Submitter) submission(o, live *unstructured.Unstructured, ignored fields.Ignored, isRepair bool) submission {
	return submission{
		cluster: s.Cluster, spec: s.Spec, shaped: ignored.Shape(o, live), ignored: ignored, isRepair: isRepair,
		options: k8s.ApplyOptions{Confidential: s.IsConfidential(o)},
	}
}

// isRejected reports whether err is a rejection without a more precise reason.
func isRejected(err error) bool {
	if _, isImmutable := errors.AsType[*k8s.ImmutableError](err); isImmutable {
		return false
	}
	problem, ok := errors.AsType[*reason.Problem](err)
	return ok && problem.Reason == reason.ApplyRejected
}
