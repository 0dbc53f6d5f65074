// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"errors"
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// stored finds fleet sources that the database has, and the replica's view does not have yet.
type stored []*catalog.FleetSource

func (stored) Get(_ context.Context, key catalog.Key) (catalog.Object, error) {
	return nil, &catalog.NotFoundError{Key: key}
}

func (s stored) SourcesReading(_ context.Context, repository string) (reading []*catalog.FleetSource, err error) {
	for _, source := range s {
		if source.Spec.Source.Repository == repository {
			reading = append(reading, source)
		}
	}
	return reading, nil
}

// TestSecGuardReadsFleetSourcesInsideTheEdit has an editor write an image policy and a repository
// at a replica that has not heard of the fleet source that another replica has just made.
func TestSecGuardReadsFleetSourcesInsideTheEdit(t *testing.T) {
	t.Parallel()
	editor := &catalog.FleetSource{Metadata: catalog.Metadata{Name: "editor"}, Spec: catalog.FleetSourceSpec{Role: catalog.RoleEditor}}
	guard := FleetSourceAuthority{View: fleet.New(fleet.Params{})}.Guard(editor)
	others := stored{{
		Metadata: catalog.Metadata{Name: "tree"},
		Spec:     catalog.FleetSourceSpec{Role: catalog.RoleAdmin, Hub: true, Source: catalog.Source{Repository: "fleet"}},
	}}
	policy := func(repository string) *catalog.ImagePolicy {
		return &catalog.ImagePolicy{Metadata: catalog.Metadata{Name: "web"}, Spec: catalog.ImagePolicySpec{
			Repository: "images", Write: &catalog.ImageWrite{Repository: repository, Branch: "main"},
		}}
	}
	var escalation *authz.EscalationError
	if err := guard.MayCreate(t.Context(), others, policy("fleet")); !errors.As(err, &escalation) {
		t.Errorf("policy: got %v, want a refusal", err)
	}
	if err := guard.MayCreate(t.Context(), others, policy("other")); err != nil {
		t.Errorf("policy of a repository that no fleet source reads: %v", err)
	}
	if err := guard.MayUpdate(t.Context(), others, policy("fleet"), policy("other")); !errors.As(err, &escalation) {
		t.Errorf("policy that is led away: got %v, want a refusal", err)
	}
}
