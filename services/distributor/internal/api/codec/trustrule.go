// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// trustRuleOf refuses unknown fields, because they may narrow who is let in.
func trustRuleOf(m *fleetv1.TrustRule) (*catalog.TrustRule, error) {
	metadata, err := hubMetadataOf(m.GetMetadata())
	if err != nil {
		return nil, err
	}
	spec := m.GetSpec()
	if len(spec.ProtoReflect().GetUnknown()) > 0 {
		return nil, fielderr.New("spec", "has a field that this version of the hub does not know")
	}
	require, err := requirementsOf(spec.GetRequire())
	if err != nil {
		return nil, err
	}
	lifetime, err := durationOf("spec.lifetime", spec.GetLifetime())
	if err != nil {
		return nil, err
	}
	return &catalog.TrustRule{Metadata: metadata, Spec: catalog.TrustRuleSpec{
		Description: spec.GetDescription(), Issuer: spec.GetIssuer(), Audience: spec.GetAudience(), Require: require,
		Expression: spec.GetExpression(), User: spec.GetUser(), Groups: spec.GetGroups(), Record: spec.GetRecord(), Lifetime: lifetime,
		CAPEM: spec.GetCaPem(), JWKS: spec.GetJwks(),
	}}, nil
}

func trustRuleMessage(r *catalog.TrustRule) *fleetv1.TrustRule {
	s := r.Spec
	m := &fleetv1.TrustRule{
		Metadata: MetadataMessage(&r.Metadata),
		Spec: &fleetv1.TrustRuleSpec{
			Description: s.Description, Issuer: s.Issuer, Audience: s.Audience, Require: requirementMessages(s.Require), Expression: s.Expression,
			User: s.User, Groups: s.Groups, Record: s.Record, CaPem: s.CAPEM, Jwks: s.JWKS,
		},
	}
	if s.Lifetime != 0 {
		m.Spec.Lifetime = durationpb.New(s.Lifetime)
	}
	return m
}
