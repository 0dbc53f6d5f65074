// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy/policywire"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
)

// EntryMessage returns the message of a plan's entry.
func EntryMessage(e *plan.Entry) *distributorv1.PlanService {
	m := &distributorv1.PlanService{
		Name:         e.Name,
		Uid:          e.UID.String(),
		SpecDigest:   e.SpecDigest,
		ConfigDigest: e.ConfigDigest,
		Apply:        policywire.PlanMessage(e.Apply()),
		SyncRequest:  e.SyncRequest,
	}
	if e.Trigger != nil {
		m.Traceparent = e.Trigger.Traceparent
		m.FetchBeganAt, m.FetchDuration = FetchMessage(e.Trigger.FetchBegan, e.Trigger.Fetch)
	}
	policywire.Require(m.GetApply(), e.Requires)
	for _, b := range e.Bundles {
		m.Bundles = append(m.Bundles, &distributorv1.PlanBundle{
			Digest:     b.Digest.String(),
			Commit:     b.Commit,
			Version:    b.Version,
			Repository: objectname.Display(b.Source.Repository),
			Path:       b.Source.Place(),
			Subpath:    b.Subpath,
			Mount:      b.Mount,
		})
	}
	return m
}

// FactsMessage returns the message of a cluster's facts, or nil if there are none.
func FactsMessage(f plan.Facts) *typev1.ClusterFacts {
	if f.IsZero() {
		return nil
	}
	return &typev1.ClusterFacts{Labels: f.Labels, Annotations: f.Annotations}
}
