// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/permission"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// Bootstraps implements leat.fleet.v1.BootstrapService.
type Bootstraps struct {
	people *Service
	tokens catalog.Bootstraps
}

var _ fleetv1connect.BootstrapServiceHandler = (*Bootstraps)(nil)

// NewBootstraps returns the service for bootstrap tokens.
func NewBootstraps(people *Service, tokens catalog.Bootstraps) *Bootstraps {
	return &Bootstraps{people: people, tokens: tokens}
}

// CreateBootstrapToken implements BootstrapServiceHandler.
func (b *Bootstraps) CreateBootstrapToken(ctx context.Context, req *fleetv1.CreateBootstrapTokenRequest) (*fleetv1.CreateBootstrapTokenResponse, error) {
	c, err := b.people.person(ctx)
	if err != nil {
		return nil, err
	}
	wanted := catalog.BootstrapToken{
		Project: cmp.Or(req.GetProject(), objectname.Default), NamePrefix: req.GetNamePrefix(), Labels: req.GetLabels(),
		Description: req.GetDescription(), MaxUses: cmp.Or(int(req.GetMaxUses()), catalog.DefaultBootstrapUses),
	}
	// Only callers with the right learn the defect of their request. A malformed name of a project is
	// in no binding.
	if !c.rights.Allows(c.needs(), authz.OfProject(wanted.Project)) {
		return nil, wire.Error(c.rights.Denied(c.needs(), catalog.Key{}))
	}
	if err := wanted.Validate(); err != nil {
		return nil, wire.Error(err)
	}
	if err := b.mustExist(ctx, wanted.Project); err != nil {
		return nil, err
	}
	if wanted.ExpiresAt, err = c.endOf(bootstrapLife, req.GetExpireTime(), c.rights.IsLimited()); err != nil {
		return nil, err
	}
	if err := c.mayBootstrap(wanted); err != nil {
		return nil, wire.Error(err)
	}
	if c.rights.IsLimited() {
		wanted.MadeWith, _ = admission.APITokenOf(c.Credential)
	}
	secret := admission.NewBootstrapToken()
	hash := admission.Hash(secret)
	token, err := b.tokens.CreateBootstrapToken(ctx, wanted, hash)
	if err != nil {
		return nil, wire.Error(err)
	}
	b.people.d.JoinTokens.Created(catalog.JoinToken{Hash: hash, IsBootstrap: true})
	return &fleetv1.CreateBootstrapTokenResponse{Token: bootstrapMessage(token), Secret: secret}, nil
}

// mustExist returns an error unless the project exists. Its caller may make bootstrap tokens in it.
func (b *Bootstraps) mustExist(ctx context.Context, project string) error {
	key := catalog.Key{Kind: catalog.KindProject, Name: project}
	_, ok, err := fleet.LookTwice(ctx, b.people.d.View, func() (fleet.Record, bool) { return b.people.d.View.Records.Get(key) })
	if project == objectname.Default || ok {
		return nil
	}
	if err != nil {
		return wire.Error(err)
	}
	return wire.Error(&catalog.ReferenceError{Key: key, Path: "project"})
}

// mayBootstrap returns an error unless the caller may make each cluster that the token can make, and a
// join token for it.
func (c *caller) mayBootstrap(token catalog.BootstrapToken) error {
	sample := token.Sample()
	for _, p := range []catalog.Permission{
		{Verb: catalog.VerbCreate, Resource: catalog.ResourceClusters},
		{Verb: catalog.VerbCreate, Resource: catalog.ResourceJoinTokens},
	} {
		if !c.rights.Allows(p, authz.OfCluster(sample)) {
			return c.rights.Denied(p, catalog.Key{})
		}
	}
	edit := editing{caller: c, directory: c.view.Catalog}
	for _, field := range permission.Edits(documentsOf(nil, sample)) {
		switch field.Needs {
		case optionsv1.Edit_EDIT_FREE, optionsv1.Edit_EDIT_SERVER:
		case optionsv1.Edit_EDIT_CLUSTER_ADMIN:
			// For one cluster a binding that names it would do. Here the names are not known yet.
			if err := edit.mustAdminister(catalog.AccessBindingSpec{Clusters: catalog.ClusterSelection{All: true}}); err != nil {
				return err
			}
		default:
			return edit.undecided(field)
		}
	}
	return nil
}

// ListBootstrapTokens implements BootstrapServiceHandler. A page's token is the place of its last item
// in the order.
func (b *Bootstraps) ListBootstrapTokens(ctx context.Context, req *fleetv1.ListBootstrapTokensRequest) (*fleetv1.ListBootstrapTokensResponse, error) {
	c, err := b.people.person(ctx)
	if err != nil {
		return nil, err
	}
	if err := optionalProject(req.GetProject()); err != nil {
		return nil, wire.Error(err)
	}
	after, limit, err := pageOf(req.GetPage())
	if err != nil {
		return nil, err
	}
	tokens, err := b.tokens.BootstrapTokens(ctx)
	if err != nil {
		return nil, wire.Error(err)
	}
	tokens = slices.DeleteFunc(tokens, func(t catalog.BootstrapToken) bool {
		return placeOfBootstrap(t) <= after || req.GetProject() != "" && t.Project != req.GetProject() ||
			!c.rights.Allows(c.needs(), authz.OfProject(t.Project))
	})
	slices.SortFunc(tokens, func(a, b catalog.BootstrapToken) int {
		return strings.Compare(placeOfBootstrap(a), placeOfBootstrap(b))
	})
	res := &fleetv1.ListBootstrapTokensResponse{}
	if len(tokens) > limit {
		tokens = tokens[:limit]
		res.NextPageToken = pageToken(placeOfBootstrap(tokens[limit-1]))
	}
	res.Tokens = wire.Each(tokens, bootstrapMessage)
	return res, nil
}

func placeOfBootstrap(t catalog.BootstrapToken) string {
	return t.Project + "\x00" + t.NamePrefix + "\x00" + t.ID
}

// RevokeBootstrapToken implements BootstrapServiceHandler. A token of a project that the caller may not
// see does not exist for them.
func (b *Bootstraps) RevokeBootstrapToken(ctx context.Context, req *fleetv1.RevokeBootstrapTokenRequest) (*fleetv1.RevokeBootstrapTokenResponse, error) {
	c, err := b.people.person(ctx)
	if err != nil {
		return nil, err
	}
	tokens, err := b.tokens.BootstrapTokens(ctx)
	if err != nil {
		return nil, wire.Error(err)
	}
	key := catalog.Key{Kind: catalog.RecordBootstrapToken, Name: req.GetId()}
	at := slices.IndexFunc(tokens, func(t catalog.BootstrapToken) bool { return t.ID == req.GetId() })
	list := catalog.Permission{Verb: catalog.VerbList, Resource: catalog.ResourceBootstraps}
	switch {
	case req.GetId() == "":
		return nil, rpcerr.Field("id", "is required")
	case at < 0:
		return nil, wire.NotFound(key)
	case !c.rights.Allows(c.needs(), authz.OfProject(tokens[at].Project)):
		if !c.rights.Allows(list, authz.OfProject(tokens[at].Project)) {
			return nil, wire.NotFound(key)
		}
		return nil, wire.Error(c.rights.Denied(c.needs(), catalog.Key{}))
	}
	if err := b.tokens.RevokeBootstrapToken(ctx, req.GetId()); err != nil {
		return nil, wire.Error(err)
	}
	return &fleetv1.RevokeBootstrapTokenResponse{}, nil
}

func bootstrapMessage(t catalog.BootstrapToken) *fleetv1.BootstrapToken {
	m := &fleetv1.BootstrapToken{
		Id: t.ID, Project: t.Project, NamePrefix: t.NamePrefix, Labels: t.Labels, Description: t.Description,
		MaxUses: int32(t.MaxUses), Uses: int32(t.Uses),
		CreateTime: catalogwire.Timestamp(t.CreatedAt), ExpireTime: catalogwire.Timestamp(t.ExpiresAt),
		LastUsedTime: catalogwire.Timestamp(t.LastUsedAt), CreatedBy: t.CreatedBy, MadeWith: t.MadeWith,
	}
	if t.LastCluster != "" {
		m.LastCluster = objectname.Display(t.LastCluster)
	}
	return m
}

// describeBootstrapToken returns what the maker of a bootstrap token chose, as the spec of an object.
func describeBootstrapToken(t catalog.BootstrapToken) ([]byte, error) {
	spec, err := protojson.Marshal(&fleetv1.BootstrapToken{
		Project: t.Project, NamePrefix: t.NamePrefix, Labels: t.Labels, Description: t.Description,
		MaxUses:    int32(t.MaxUses),
		Uses:       int32(t.Uses),
		ExpireTime: catalogwire.Timestamp(t.ExpiresAt), MadeWith: t.MadeWith,
	})
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"spec": %s}`, spec), nil
}
