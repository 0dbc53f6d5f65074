// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/contract/enumname"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/contract/upstream/upstreamwire"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// repositoryOf reads a credential without anything to show, and an empty webhook secret, as the wish
// to remove the stored ones.
func repositoryOf(m *fleetv1.Repository) (*catalog.Repository, error) {
	metadata, err := metadataOf(m.GetMetadata())
	if err != nil {
		return nil, err
	}
	spec := m.GetSpec()
	wanted, err := upstreamwire.Definition(spec)
	if err != nil {
		return nil, fielderr.Within("spec", err)
	}
	if err := parseChartRepositories(&wanted, m.GetMetadata().GetProject()); err != nil {
		return nil, err
	}
	wanted.PollInterval = wanted.PollInterval.Truncate(time.Microsecond) // SQL keeps no smaller units
	return &catalog.Repository{Metadata: metadata, Spec: catalog.RepositorySpec{
		Definition:          wanted,
		RemoveCredential:    spec.GetCredential() != nil && wanted.Credential.IsZero(),
		RemoveWebhookSecret: spec != nil && spec.WebhookSecret != nil && wanted.WebhookSecret == "",
	}}, nil
}

// repositoryMessage never carries the credential, nor the proxy's password.
func repositoryMessage(repository *catalog.Repository, mirror *catalog.Mirror) *fleetv1.Repository {
	spec := upstreamwire.SpecMessage(repository.Spec.Definition)
	spec.ChartRepositories = FormatNames(spec.GetChartRepositories(), objectname.Project(repository.Name))
	return &fleetv1.Repository{Metadata: MetadataMessage(&repository.Metadata), Spec: spec, Status: mirrorMessage(mirror)}
}

func mirrorMessage(m *catalog.Mirror) *gitcachev1.RepositoryState {
	if m == nil {
		return nil
	}
	return &gitcachev1.RepositoryState{
		Phase:         enumname.Value[gitcachev1.RepositoryPhase](string(m.Phase)),
		Problem:       catalogwire.ProblemMessage(m.Problem),
		FreshAt:       catalogwire.Timestamp(m.FreshAt),
		ChangedAt:     catalogwire.Timestamp(m.ChangedAt),
		NextPollAt:    catalogwire.Timestamp(m.NextPollAt),
		DefaultBranch: m.DefaultBranch,
		RefCount:      m.Refs,
		DiskBytes:     m.DiskBytes,
		Epoch:         m.Epoch,
		Owner:         m.Owner,
		Failures:      m.Failures,
		Fetches:       m.Fetches,
		HeldRefs:      m.HeldRefs,
		Notices:       m.Notices,
	}
}

// parseChartRepositories turns the repositories that a repository's charts may depend on into paths.
func parseChartRepositories(definition *upstream.Definition, project string) error {
	paths, err := parseNames("spec.chart_repositories", definition.ChartRepositories.Names(), project)
	if err == nil {
		definition.ChartRepositories = upstream.NewList(paths)
	}
	return err
}
