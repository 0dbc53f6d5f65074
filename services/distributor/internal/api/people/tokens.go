// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// CreateToken implements FleetService. Users make tokens for themselves, and people who may create
// tokens for everybody who may do no more than they. A token gives no more than the one that it is
// made with.
func (s *Service) CreateToken(ctx context.Context, req *fleetv1.CreateTokenRequest) (*fleetv1.CreateTokenResponse, error) {
	c, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	mayForAll := c.rights.Allows(c.needs(), authz.Object{})
	mayForSelf := c.isUser(req.GetUser()) && c.rights.LimitHolds(c.needs())
	if !mayForAll && !mayForSelf {
		return nil, wire.Error(c.rights.Denied(c.needs(), catalog.Key{}))
	}
	if err := objectname.ValidateLabel("user", req.GetUser()); err != nil {
		return nil, wire.Error(err)
	}
	if err := catalog.ValidateTokenLabel(req.GetLabel()); err != nil {
		return nil, wire.Error(err)
	}
	made := catalog.NewToken{User: req.GetUser(), Label: req.GetLabel()}
	if made.Limit, err = s.limitOf(ctx, req.GetLimit()); err != nil {
		return nil, wire.Error(err)
	}
	if made.ExpiresAt, err = c.endOf(apiLife, req.GetExpireTime(), !mayForAll || c.rights.IsLimited()); err != nil {
		return nil, err
	}
	if err := s.mayIssue(ctx, c, made); err != nil {
		return nil, wire.Error(err)
	}
	if c.rights.IsLimited() {
		made.MadeWith, _ = admission.APITokenOf(c.Credential)
	}
	secret := admission.NewAPIToken()
	made.Hash = admission.Hash(secret)
	token, err := s.d.People.CreateToken(ctx, made)
	if err != nil {
		return nil, wire.Error(err)
	}
	s.follow(ctx)
	return &fleetv1.CreateTokenResponse{Token: codec.TokenMessage(token), Secret: secret}, nil
}

// isUser reports whether the caller is the user of the hub of that name. A person whom others sign
// in is not.
func (c *caller) isUser(name string) bool {
	user, ok := c.view.Accounts().User(name)
	return ok && user.Name == c.Name && user.UID == c.UID
}

// limitOf returns the settled limit of a request; nil for none.
func (s *Service) limitOf(ctx context.Context, m *fleetv1.TokenLimit) (*catalog.TokenLimit, error) {
	limit, err := codec.TokenLimitOf(m)
	if err != nil || limit == nil {
		return nil, err
	}
	_, ok, err := fleet.LookTwice(ctx, s.d.View, func() (catalog.RoleSpec, bool) { return s.d.View.Catalog.Role(limit.Role) })
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, &catalog.ReferenceError{Key: catalog.Key{Kind: catalog.KindRole, Name: string(limit.Role)}, Path: "limit.role_name"}
	}
	return limit, nil
}

// life is how long tokens of a kind are valid.
type life struct {
	token          string // names one in texts
	usual, longest time.Duration
}

var (
	apiLife       = life{"a token", catalog.DefaultTokenLife, catalog.MaxTokenLife}
	bootstrapLife = life{"a bootstrap token", catalog.DefaultBootstrapLife, catalog.MaxBootstrapLife}
)

// endOf returns when a new token ends: at the time that the caller asks for, or after the usual one if asked
// is nil. A bounded token ends with the token that it is made with at the latest.
func (c *caller) endOf(of life, asked *timestamppb.Timestamp, isBounded bool) (time.Time, error) {
	now := time.Now()
	wanted, latest := now.Add(of.usual), now.Add(of.longest)
	_, last := c.person.Limit()
	isLimited := isBounded && !last.IsZero() && last.Before(latest.Add(clockSkew))
	if isLimited {
		latest = last
		if wanted.After(last) {
			wanted = last
		}
	}
	if asked == nil {
		return wanted, nil
	}
	switch ends := catalogwire.TimeOf(asked); {
	case asked.CheckValid() != nil || !ends.After(now):
		return time.Time{}, rpcerr.Field("expire_time", "is not in the future")
	case isLimited && ends.After(latest):
		return time.Time{}, rpcerr.Field("expire_time", "is after "+latest.UTC().Format(time.RFC3339)+", when the token that you use ends")
	case ends.After(latest.Add(clockSkew)):
		return time.Time{}, rpcerr.Field("expire_time", fmt.Sprintf("is too late; %s is valid for %d days at most", of.token, int(of.longest.Hours()/24)))
	default:
		return ends, nil
	}
}

// mayIssue returns an error if a token would give more than the caller holds, or its owner does not
// exist. An owner whom another replica has just stored is looked for: they may be an administrator.
func (s *Service) mayIssue(ctx context.Context, c *caller, made catalog.NewToken) error {
	user, ok, err := fleet.LookTwice(ctx, s.d.View, func() (*catalog.User, bool) { return s.d.View.Accounts().User(made.User) })
	if err != nil {
		return err
	}
	if !ok {
		return &catalog.NotFoundError{Key: catalog.Key{Kind: catalog.KindUser, Name: made.User}}
	}
	var limit *authz.Limit
	if made.Limit != nil {
		limit = new(authz.NewLimit(s.d.View.Catalog, *made.Limit, made.ExpiresAt))
	}
	return c.rights.MayIssue(s.d.View.Accounts().Rights(fleet.Named(user.Name, user.Spec.Groups)), limit, c.isUser(user.Name))
}

// ListTokens implements FleetService. A page's token is the place of its last item in the order. A
// token with a limit shows the other tokens of its owner only if the limit leaves that.
func (s *Service) ListTokens(ctx context.Context, req *fleetv1.ListTokensRequest) (*fleetv1.ListTokensResponse, error) {
	c, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	user, isShown := req.GetUser(), func(catalog.Token) bool { return true }
	if !c.rights.Allows(c.needs(), authz.Object{}) {
		if user != "" && user != c.Name {
			return nil, wire.Error(c.rights.Denied(c.needs(), catalog.Key{}))
		}
		user = c.Name
		if isAll := c.rights.LimitHolds(c.needs()); !isAll {
			own, _ := admission.APITokenOf(c.Credential)
			isShown = func(t catalog.Token) bool { return t.ID == own }
		}
	}
	after, limit, err := pageOf(req.GetPage())
	if err != nil {
		return nil, err
	}
	tokens, err := s.d.People.ListTokens(ctx, user)
	if err != nil {
		return nil, wire.Error(err)
	}
	tokens = slices.DeleteFunc(tokens, func(t catalog.Token) bool { return placeOf(t) <= after || !isShown(t) })
	slices.SortFunc(tokens, func(a, b catalog.Token) int { return strings.Compare(placeOf(a), placeOf(b)) })
	res := &fleetv1.ListTokensResponse{}
	if len(tokens) > limit {
		tokens = tokens[:limit]
		res.NextPageToken = pageToken(placeOf(tokens[limit-1]))
	}
	res.Tokens = wire.Each(tokens, func(t catalog.Token) *fleetv1.Token { return codec.TokenMessage(s.d.Uses.Shown(t)) })
	return res, nil
}

func placeOf(t catalog.Token) string { return t.User + "\x00" + t.Label + "\x00" + t.ID }

// DeleteToken implements FleetService. To people who may delete only their own tokens, an id of
// another one is refused as one that does not exist.
func (s *Service) DeleteToken(ctx context.Context, req *fleetv1.DeleteTokenRequest) (*fleetv1.DeleteTokenResponse, error) {
	c, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	isOwn, err := s.isOwnToken(ctx, c, req.GetId())
	if err != nil {
		return nil, wire.Error(err)
	}
	if !c.rights.Allows(c.needs(), authz.Object{}) && !isOwn {
		return nil, wire.Error(c.rights.Denied(c.needs(), catalog.Key{}))
	}
	if req.GetId() == "" {
		return nil, rpcerr.Field("id", "is required")
	}
	if err := s.d.People.DeleteToken(ctx, req.GetId()); err != nil {
		return nil, wire.Error(err)
	}
	s.follow(ctx)
	return &fleetv1.DeleteTokenResponse{}, nil
}

// isOwnToken reports whether the token is one that the caller may end as its owner. A token with a
// limit ends itself and tokens that were made with it, and other tokens of its owner only if the
// limit leaves that.
func (s *Service) isOwnToken(ctx context.Context, c *caller, id string) (bool, error) {
	if !c.isUser(c.Name) {
		return false, nil
	}
	own, err := s.d.People.ListTokens(ctx, c.Name)
	if err != nil {
		return false, err
	}
	isTheirs := func(t catalog.Token) bool { return t.ID == id && t.UserUID == c.UID }
	if c.rights.LimitHolds(c.needs()) {
		return slices.ContainsFunc(own, isTheirs), nil
	}
	self, _ := admission.APITokenOf(c.Credential)
	return id != "" && (id == self || slices.ContainsFunc(catalog.MadeWith(self, own), isTheirs)), nil
}
