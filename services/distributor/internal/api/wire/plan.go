// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/syncpolicy/policywire"
	"github.com/leatdev/leat/services/distributor/internal/plan"
)

// EntryMessage returns the message of a plan's entry.
func EntryMessage(e *plan.Entry) *distributorv1.PlanService {
	m := &distributorv1.PlanService{
		Name:         e.Name,
		Uid:          e.UID,
		SpecDigest:   e.SpecDigest,
		ConfigDigest: e.ConfigDigest,
		Apply:        policywire.PlanMessage(e.Apply()),
		SyncRequest:  e.SyncRequest,
		Traceparent:  e.Traceparent,
	}
	for _, b := range e.Bundles {
		m.Bundles = append(m.Bundles, &distributorv1.PlanBundle{
			Digest:     b.Digest.String(),
			Commit:     b.Commit,
			Repository: b.Source.Repository,
			Path:       b.Source.Path,
			Subpath:    b.Subpath,
		})
	}
	return m
}
