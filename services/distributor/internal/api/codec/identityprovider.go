// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// providerOf reads an empty secret as the wish to remove the stored one. It refuses conditions with
// unknown fields, because they narrow who is let in.
func providerOf(m *fleetv1.IdentityProvider) (*catalog.IdentityProvider, error) {
	metadata, err := hubMetadataOf(m.GetMetadata())
	if err != nil {
		return nil, err
	}
	spec := m.GetSpec()
	session, err := durationOf("spec.session", spec.GetSession())
	if err != nil {
		return nil, err
	}
	renew, err := durationOf("spec.renew", spec.GetRenew())
	if err != nil {
		return nil, err
	}
	if len(spec.ProtoReflect().GetUnknown()) > 0 {
		return nil, fielderr.New("spec", "has a field that this version of the hub does not know")
	}
	p := &catalog.IdentityProvider{Metadata: metadata, Spec: catalog.IdentityProviderSpec{
		Title: spec.GetTitle(), Issuer: spec.GetIssuer(), ClientID: spec.GetClientId(), ClientSecret: secret.Text(spec.GetClientSecret()),
		RemoveSecret: spec != nil && spec.ClientSecret != nil && spec.GetClientSecret() == "",
		Scopes:       spec.GetScopes(), UsernameClaim: spec.GetUsernameClaim(), GroupsClaim: spec.GetGroupsClaim(), Groups: spec.GetGroups(),
		Session: session, Renew: renew, CAPEM: spec.GetCaPem(), Suspended: spec.GetSuspended(),
	}}
	if spec != nil && spec.GroupPrefix != nil {
		p.Spec.GroupPrefix = new(spec.GetGroupPrefix())
	}
	p.Spec.Require, err = requirementsOf(spec.GetRequire())
	return p, err
}

// providerMessage never carries the secret.
func providerMessage(p *catalog.IdentityProvider, status fleet.ProviderStatus) *fleetv1.IdentityProvider {
	s := p.Spec
	m := &fleetv1.IdentityProvider{
		Metadata: MetadataMessage(&p.Metadata),
		Spec: &fleetv1.IdentityProviderSpec{
			Title: s.Title, Issuer: s.Issuer, ClientId: s.ClientID, Scopes: s.Scopes, UsernameClaim: s.UsernameClaim,
			GroupsClaim: s.GroupsClaim, GroupPrefix: s.GroupPrefix, Groups: s.Groups, CaPem: s.CAPEM, Suspended: s.Suspended,
			Require: requirementMessages(s.Require),
		},
		Status: &fleetv1.IdentityProviderStatus{Sessions: int32(status.Sessions)},
	}
	if s.Session != 0 {
		m.Spec.Session = durationpb.New(s.Session)
	}
	if s.Renew != 0 {
		m.Spec.Renew = durationpb.New(s.Renew)
	}
	return m
}
