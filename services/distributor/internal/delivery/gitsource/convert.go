// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/contract/enumname"
	"github.com/leatdev/leat/internal/contract/upstream/upstreamwire"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

func definitionMessage(r *catalog.Repository) *gitcachev1.RepositoryDefinition {
	m := upstreamwire.DefinitionMessage(r.Spec.Definition)
	m.Name, m.Uid, m.Version = r.Name, r.UID, r.ResourceVersion
	return m
}

func mirrorOf(m *gitcachev1.RepositoryState) *catalog.Mirror {
	return &catalog.Mirror{
		Phase:         catalog.MirrorPhase(enumname.Of(m.GetPhase())),
		Problem:       catalogwire.ProblemOf(m.GetProblem()),
		FreshAt:       catalogwire.TimeOf(m.GetFreshAt()),
		ChangedAt:     catalogwire.TimeOf(m.GetChangedAt()),
		NextPollAt:    catalogwire.TimeOf(m.GetNextPollAt()),
		DefaultBranch: m.GetDefaultBranch(),
		Refs:          m.GetRefCount(),
		DiskBytes:     m.GetDiskBytes(),
		Epoch:         m.GetEpoch(),
		Owner:         m.GetOwner(),
		Failures:      m.GetFailures(),
		Fetches:       m.GetFetches(),
		HeldRefs:      m.GetHeldRefs(),
		Notices:       m.GetNotices(),
	}
}
