// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"slices"
	"strconv"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/enumname"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// ListRevisions implements FleetService. A page's token is the number of its last revision.
func (s *Service) ListRevisions(ctx context.Context, req *fleetv1.ListRevisionsRequest) (*fleetv1.ListRevisionsResponse, error) {
	record, err := s.permitted(ctx, catalog.KindService, "service", req.GetService())
	if err != nil {
		return nil, err
	}
	size := int(req.GetPage().GetSize())
	if size < 0 {
		return nil, rpcerr.Field("page.size", "is negative")
	}
	if size == 0 {
		size = catalog.MaxRevisions
	}
	revisions, err := s.d.History.Revisions(ctx, record.Object.Meta().UID)
	if err != nil {
		return nil, wire.Error(err)
	}
	if token := req.GetPage().GetToken(); token != "" {
		last, err := strconv.ParseInt(token, 10, 64)
		if err != nil {
			return nil, rpcerr.Field("page.token", "is not a token that a listing returned")
		}
		revisions = slices.DeleteFunc(revisions, func(r catalog.Revision) bool { return r.Number >= last })
	}
	res := &fleetv1.ListRevisionsResponse{}
	if len(revisions) > size {
		revisions = revisions[:size]
		res.NextPageToken = strconv.FormatInt(revisions[size-1].Number, 10)
	}
	res.Revisions = wire.Each(revisions, s.revisionMessage)
	return res, nil
}

func (s *Service) revisionMessage(r catalog.Revision) *fleetv1.Revision {
	began, took := wire.FetchMessage(r.FetchBegan, r.Fetch)
	return &fleetv1.Revision{
		Number:       r.Number,
		SpecDigest:   r.SpecDigest,
		ConfigDigest: r.ConfigDigest,
		Digests:      r.Digests,
		Commits:      r.Commits,
		Versions:     r.Versions,
		Outcome:      enumname.Value[fleetv1.RevisionOutcome](string(r.Outcome)),
		Problem:      catalogwire.ProblemMessage(r.Problem),
		PlannedAt:    catalogwire.Timestamp(r.PlannedAt),
		AppliedAt:    catalogwire.Timestamp(r.AppliedAt),
		HealthyAt:    catalogwire.Timestamp(r.HealthyAt),
		SupersededAt: catalogwire.Timestamp(r.SupersededAt),
		Timings:      wire.TimingsMessage(r.Timings),

		TraceId: r.TraceID, TraceUrl: s.d.Settings.traceURL(r.TraceID), FetchBeganAt: began, FetchDuration: took,
	}
}
