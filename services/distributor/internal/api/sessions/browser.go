// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sessions

import (
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/access/loginpages"
	"github.com/leatdev/leat/services/distributor/internal/access/session"
	"github.com/leatdev/leat/services/distributor/internal/api/recorder"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// A user of the hub is signed in in a browser by an API token that the hub makes for that browser
// alone. Its cookie holds the token, which gives no more than the one that it was made with, ends with
// it, and ends after an hour without use, as a session does. Everything that lists, ends and records API tokens holds for it.
const (
	// browserLife is how long one lives at most.
	browserLife = 12 * time.Hour
	// apiCookie takes the place of a session's id in the cookie.
	apiCookie = "api"
)

// CreateSignInCode implements SessionService.
func (s *Service) CreateSignInCode(ctx context.Context, _ *fleetv1.CreateSignInCodeRequest) (*fleetv1.CreateSignInCodeResponse, error) {
	caller, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	id := caller.Identity()
	token, ok := admission.APITokenOf(id.TokenID) // an access token would outlive itself
	if !ok || id.UID == "" {
		return nil, wire.Denied("only an API token makes codes; people of an identity provider sign in at the hub's page")
	}
	code, ends, err := s.d.Codes.MakeForBrowser(session.BrowserCode{User: id.Name, UserUID: id.UID, TokenID: token})
	if err != nil {
		return nil, err
	}
	return &fleetv1.CreateSignInCodeResponse{Code: code.Reveal(), ExpireTime: timestamppb.New(ends)}, nil
}

// SignIn implements SessionService.
func (s *Service) SignIn(ctx context.Context, req *fleetv1.SignInRequest) (*fleetv1.SignInResponse, error) {
	info, err := ownPage(ctx) // before the proof costs a read of the database
	if err != nil {
		return nil, err
	}
	var of session.BrowserCode
	var token secret.Text
	switch proof := req.GetProof().(type) {
	case *fleetv1.SignInRequest_Code:
		of, token, err = s.d.Codes.OpenForBrowser(proof.Code)
	case *fleetv1.SignInRequest_ApiToken:
		of, err = s.ownerOf(ctx, proof.ApiToken)
		token = secret.Text(admission.NewAPIToken())
	default:
		return nil, rpcerr.Field("proof", "is required: code or api_token")
	}
	if err != nil {
		return nil, mapped(err)
	}
	kept, person, err := s.signIn(ctx, of, token)
	if err != nil {
		return nil, err
	}
	identity.Verified(ctx)
	info.ResponseHeader().Add("Set-Cookie", loginpages.KeepSession(apiCookie, token, kept.ExpiresAt).String())
	return &fleetv1.SignInResponse{Session: tokenMessage(kept, person)}, nil
}

// ownerOf returns whose an API token is.
func (s *Service) ownerOf(ctx context.Context, token string) (session.BrowserCode, error) {
	id, err := s.d.Tokens.Verify(ctx, token)
	if errors.Is(err, identity.ErrTokenInvalid) {
		return session.BrowserCode{}, session.ErrProof
	}
	made, _ := admission.APITokenOf(id.Credential)
	return session.BrowserCode{User: id.Name, UserUID: id.UID, TokenID: made}, err
}

// signIn stores the token of a browser. A token that was there before shows that its code was used,
// perhaps by somebody else than the person, so the store ends it.
func (s *Service) signIn(ctx context.Context, of session.BrowserCode, token secret.Text) (catalog.Token, fleet.Person, error) {
	by := identity.Identity{Kind: identity.KindUser, Name: of.User, UID: of.UserUID, Credential: admission.CredentialOf(of.TokenID)}
	person, ok, err := s.d.View.AdmitPerson(ctx, by)
	if err != nil {
		return catalog.Token{}, person, wire.Error(err)
	}
	if !ok {
		return catalog.Token{}, person, ended()
	}
	limit, ends := person.Limit()
	if latest := catalog.Now().Add(browserLife); ends.IsZero() || ends.After(latest) {
		ends = latest
	}
	ctx = recorder.Anonymous(ctx)
	origin := catalog.OriginOf(ctx)
	origin.Subject, origin.SubjectUID, origin.Credential = by.Subject(), by.UID, by.Credential
	ctx = catalog.WithOrigin(ctx, origin)
	kept, err := s.d.People.CreateToken(ctx, catalog.NewToken{
		User: of.User, Label: admission.BrowserLabel, Hash: admission.Hash(token.Reveal()), ExpiresAt: ends, Limit: limit, MadeWith: of.TokenID, IsOnce: true,
	})
	s.d.View.Look(ctx)
	switch {
	case errors.Is(err, catalog.ErrTokenUsed):
		return catalog.Token{}, person, wire.TokenInvalid(
			"the code was used twice, so somebody else may have it; that sign-in has ended: leat ui makes another code")
	case err != nil:
		return catalog.Token{}, person, wire.Error(err)
	}
	return kept, person, nil
}

// exchangeToken gives an access token for the token of a browser.
func (s *Service) exchangeToken(ctx context.Context, token secret.Text, audience string) (*fleetv1.SessionServiceCreateAccessTokenResponse, error) {
	id, err := s.d.Tokens.UseInBrowser(recorder.Anonymous(ctx), token.Reveal())
	person, err := s.holder(ctx, id, err)
	if err != nil {
		return nil, err
	}
	identity.Verified(ctx)
	life := session.BrowserTokenLife
	_, ends := person.Limit()
	if !ends.IsZero() {
		life = min(life, time.Until(ends))
	}
	access, expires, err := s.d.Issuer.Issue(person.Identity(), audience, life)
	if err != nil {
		return nil, err
	}
	return &fleetv1.SessionServiceCreateAccessTokenResponse{
		AccessToken: access, ExpireTime: timestamppb.New(expires), Session: tokenMessage(catalog.Token{ExpiresAt: ends}, person),
	}, nil
}

// holder returns the person whose browser holds a token, from the answer of Tokens.
func (s *Service) holder(ctx context.Context, id identity.Identity, err error) (fleet.Person, error) {
	if errors.Is(err, identity.ErrTokenInvalid) {
		return fleet.Person{}, ended()
	}
	if err != nil {
		return fleet.Person{}, wire.Error(err)
	}
	person, ok, err := s.d.View.AdmitPerson(ctx, id)
	if err != nil {
		return fleet.Person{}, wire.Error(err)
	}
	if !ok {
		return fleet.Person{}, ended()
	}
	return person, nil
}

// endToken ends the token of a browser. A token that has ended is no error.
func (s *Service) endToken(ctx context.Context, token secret.Text) error {
	id, err := s.d.Tokens.Verify(ctx, token.Reveal())
	person, err := s.holder(ctx, id, err)
	if connect.CodeOf(err) == connect.CodeUnauthenticated {
		return nil
	}
	if err != nil {
		return err
	}
	id = person.Identity()
	ctx = recorder.Anonymous(ctx)
	origin := catalog.OriginOf(ctx)
	origin.Subject, origin.SubjectUID, origin.Credential = id.Subject(), id.UID, id.Credential
	own, _ := admission.APITokenOf(id.Credential)
	if err := s.d.People.DeleteToken(catalog.WithOrigin(ctx, origin), own); err != nil && !errors.Is(err, catalog.ErrNotFound) {
		return wire.Error(err)
	}
	s.d.View.Look(ctx)
	return nil
}

// ownPage returns the call if a page of the hub's own makes it, as the browser itself declares. Every
// browser that keeps the hub's cookies does.
func ownPage(ctx context.Context) (connect.CallInfo, error) {
	info, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok {
		return nil, ended()
	}
	if info.RequestHeader().Get("Sec-Fetch-Site") != "same-origin" {
		return nil, wire.Denied("only the hub's own pages may use the session of a browser")
	}
	return info, nil
}

// cookieOf returns the session's cookie of a request; nil if there is none.
func cookieOf(header http.Header) *http.Cookie {
	request := http.Request{Header: header}
	kept, err := request.Cookie(loginpages.SessionCookie)
	if err != nil {
		return nil
	}
	return kept
}

// tokenMessage shows the sign-in of a user of the hub in a browser as a session.
func tokenMessage(kept catalog.Token, person fleet.Person) *fleetv1.Session {
	id := person.Identity()
	m := &fleetv1.Session{Id: id.Credential, Person: id.Name, Groups: id.Groups, Client: fleetv1.SessionClient_SESSION_CLIENT_BROWSER}
	if kept.ID != "" {
		m.Id = admission.CredentialOf(kept.ID)
		m.CreateTime = timestamppb.New(kept.CreatedAt)
	}
	if !kept.ExpiresAt.IsZero() {
		m.ExpireTime = timestamppb.New(kept.ExpiresAt)
	}
	return m
}
