// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"log/slog"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// ImagePolicies implements leat.fleet.v1.ImagePolicyService.
type ImagePolicies struct {
	// people decides who may call.
	people *Service
}

var _ fleetv1connect.ImagePolicyServiceHandler = (*ImagePolicies)(nil)

// NewImagePolicies returns the service for image policies.
func NewImagePolicies(people *Service) *ImagePolicies { return &ImagePolicies{people: people} }

// SyncImagePolicy implements ImagePolicyServiceHandler. A repository that cannot be fetched does not keep the policy from
// being looked at as last known; its state has the problem.
func (i *ImagePolicies) SyncImagePolicy(ctx context.Context, req *fleetv1.SyncImagePolicyRequest) (*fleetv1.SyncImagePolicyResponse, error) {
	record, err := i.people.permitted(ctx, catalog.KindImagePolicy, "name", req.GetName())
	if err != nil {
		return nil, err
	}
	policy, ok := record.Object.(*catalog.ImagePolicy)
	if !ok {
		return nil, wire.Error(&catalog.NotFoundError{Key: catalog.Key{Kind: catalog.KindImagePolicy, Name: req.GetName()}})
	}
	repositories := []string{policy.Spec.Repository}
	if policy.Spec.Write != nil {
		repositories = append(repositories, policy.Spec.Write.Repository)
	}
	fetching, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	for _, repository := range repositories {
		if err := i.people.d.Mirrors.Refresh(fetching, repository); err != nil {
			i.people.d.Logger.WarnContext(ctx, "look at an image policy goes on with what was last known", slog.Any("error", err))
		}
	}
	asked, err := i.people.d.States.Images.Ask(ctx, policy.UID)
	return &fleetv1.SyncImagePolicyResponse{Request: asked}, wire.Error(err)
}

// imagePoliciesShown returns the messages of image policies with what they did.
func (s *Service) imagePoliciesShown(ctx context.Context, records []fleet.Record) ([]*fleetv1.ImagePolicy, error) {
	uids := make([]string, len(records))
	for i, record := range records {
		uids[i] = record.Object.Meta().UID
	}
	states, err := s.d.States.Images.States(ctx, uids)
	if err != nil {
		return nil, wire.Error(err)
	}
	shown := codec.Messages[*fleetv1.ImagePolicy](records)
	for i := range shown {
		shown[i].Status = codec.ImagePolicyStatusMessage(states[uids[i]])
	}
	return shown, nil
}
