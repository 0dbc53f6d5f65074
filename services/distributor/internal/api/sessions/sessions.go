// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package sessions answers SessionService: how people sign in, and what they do with their
// sessions.
//
// Six of its calls need no access token, because a proof or a session authenticates them. A
// session is presented in the request, or in the cookie of the hub's own pages. The cookie counts
// in CreateAccessToken and SignOut alone, and only in a request that the browser itself marks as
// one of this origin. SignIn sets it for such requests alone, too.
package sessions

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/contract/permission"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/access/loginpages"
	"github.com/leatdev/leat/services/distributor/internal/access/session"
	"github.com/leatdev/leat/services/distributor/internal/api/recorder"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

const (
	defaultPageSize = 500
	maxPageSize     = 1000
	// busyRetry is after how long strangers try again.
	busyRetry = session.DeviceInterval
)

// Deps are the collaborators and settings of the service.
type Deps struct {
	View   *fleet.View
	Desk   *session.Desk
	Issuer *identity.Issuer
	// Codes, People and Tokens sign users of the hub in, in browsers.
	Codes  *session.Codes
	People catalog.People
	Tokens *admission.APITokens
	Logger *slog.Logger
	// PublicURL is the hub's, without a slash at its end. Empty: sign-in by a provider is off.
	PublicURL string
}

// Service implements leat.fleet.v1.SessionService.
type Service struct{ d Deps }

// New returns the service.
func New(d Deps) *Service { return &Service{d: d} }

// Public are the procedures that need no access token.
func Public() []string {
	return []string{
		fleetv1connect.SessionServiceGetSignInMethodsProcedure, fleetv1connect.SessionServiceStartDeviceSignInProcedure,
		fleetv1connect.SessionServiceCreateSessionProcedure, fleetv1connect.SessionServiceCreateAccessTokenProcedure,
		fleetv1connect.SessionServiceSignInProcedure, fleetv1connect.SessionServiceSignOutProcedure,
	}
}

// Protect refuses requests with a session's cookie that no page of the hub's own origin makes,
// before any code reads the cookie.
func Protect(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie(loginpages.SessionCookie); err == nil && protection.Check(r) != nil {
			rpcerr.WriteHTTP(w, r, wire.Denied("pages of another origin may not use the session of a browser"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// GetSignInMethods implements SessionService.
func (s *Service) GetSignInMethods(context.Context, *fleetv1.GetSignInMethodsRequest) (*fleetv1.GetSignInMethodsResponse, error) {
	res := &fleetv1.GetSignInMethodsResponse{}
	if s.d.PublicURL == "" {
		return res, nil
	}
	for _, provider := range s.d.View.Accounts().Providers() {
		res.Methods = append(res.Methods, &fleetv1.SignInMethod{Name: provider.Name, Title: provider.ShownTitle()})
		res.LoginUrl = s.d.PublicURL + loginpages.LoginPath
	}
	return res, nil
}

// StartDeviceSignIn implements SessionService.
func (s *Service) StartDeviceSignIn(context.Context, *fleetv1.StartDeviceSignInRequest) (*fleetv1.StartDeviceSignInResponse, error) {
	if s.d.PublicURL == "" || len(s.d.View.Accounts().Providers()) == 0 {
		return nil, rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_REFERENCE_NOT_FOUND,
			"the hub has no identity provider to sign in with; use an API token")
	}
	device, err := s.d.Desk.StartDevice()
	if err != nil {
		return nil, mapped(err)
	}
	return &fleetv1.StartDeviceSignInResponse{
		DeviceCode: device.Code.Reveal(), UserCode: device.UserCode, VerificationUrl: s.d.PublicURL + loginpages.DevicePath,
		Interval: durationpb.New(session.DeviceInterval), ExpireTime: timestamppb.New(device.EndsAt),
	}, nil
}

// CreateSession implements SessionService.
func (s *Service) CreateSession(ctx context.Context, req *fleetv1.CreateSessionRequest) (*fleetv1.CreateSessionResponse, error) {
	if err := checkHash("token_hash", req.GetTokenHash()); err != nil {
		return nil, err
	}
	ctx = recorder.Anonymous(ctx)
	var made catalog.Session
	var err error
	switch proof := req.GetProof().(type) {
	case *fleetv1.CreateSessionRequest_Code:
		made, err = s.d.Desk.RedeemCode(ctx, proof.Code, req.GetCodeVerifier(), req.GetTokenHash())
	case *fleetv1.CreateSessionRequest_DeviceCode:
		var isThere bool
		made, isThere, err = s.d.Desk.RedeemDevice(ctx, proof.DeviceCode, req.GetTokenHash())
		if err == nil && !isThere {
			return &fleetv1.CreateSessionResponse{}, nil
		}
	default:
		return nil, rpcerr.Field("proof", "is required: code or device_code")
	}
	if err != nil {
		return nil, mapped(err)
	}
	identity.Verified(ctx)
	s.d.View.Look(ctx)
	return &fleetv1.CreateSessionResponse{Session: sessionMessage(made)}, nil
}

// CreateAccessToken implements SessionService.
func (s *Service) CreateAccessToken(
	ctx context.Context, req *fleetv1.SessionServiceCreateAccessTokenRequest,
) (*fleetv1.SessionServiceCreateAccessTokenResponse, error) {
	audience := cmp.Or(req.GetAudience(), identity.ServiceDistributor)
	if audience != identity.ServiceDistributor && audience != identity.ServiceTunnel {
		return nil, rpcerr.Field("audience", `must be "distributor" or "tunnel"`)
	}
	presented, err := present(ctx, req.GetSessionToken())
	if err != nil {
		return nil, err
	}
	if presented.ID == apiCookie {
		return s.exchangeToken(ctx, presented.Token, audience)
	}
	if req.GetSessionToken() != "" {
		if err := checkHash("next_token_hash", req.GetNextTokenHash()); err != nil {
			return nil, err
		}
		presented.Next = req.GetNextTokenHash()
	}
	pass, err := s.d.Desk.Exchange(recorder.Anonymous(ctx), presented)
	if err != nil {
		return nil, mapped(err)
	}
	identity.Verified(ctx)
	id := identity.Identity{
		Kind: identity.KindUser, Name: pass.Person, Groups: pass.Groups, Credential: session.CredentialOf(pass.ID),
	}
	token, expires, err := s.d.Issuer.Issue(id, audience, pass.Life)
	if err != nil {
		return nil, err
	}
	return &fleetv1.SessionServiceCreateAccessTokenResponse{
		AccessToken: token, ExpireTime: timestamppb.New(expires), Session: sessionMessage(pass.Session),
	}, nil
}

// SignOut implements SessionService.
func (s *Service) SignOut(ctx context.Context, req *fleetv1.SignOutRequest) (*fleetv1.SignOutResponse, error) {
	presented, err := present(ctx, req.GetSessionToken())
	if err != nil {
		return nil, err
	}
	if presented.ID == apiCookie {
		err = s.endToken(ctx, presented.Token)
	} else {
		err = s.d.Desk.SignOut(recorder.Anonymous(ctx), presented)
	}
	if err != nil {
		return nil, mapped(err)
	}
	if info, ok := connect.CallInfoForHandlerContext(ctx); ok && req.GetSessionToken() == "" {
		info.ResponseHeader().Add("Set-Cookie", loginpages.ClearSession().String())
		info.ResponseHeader().Set("Clear-Site-Data", `"cache", "storage"`)
	}
	return &fleetv1.SignOutResponse{}, nil
}

// ListSessions implements SessionService. A page's token is the id of its last session.
func (s *Service) ListSessions(ctx context.Context, req *fleetv1.ListSessionsRequest) (*fleetv1.ListSessionsResponse, error) {
	caller, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	person := req.GetPerson()
	if !s.isPermitted(ctx, caller) {
		if person != "" && person != caller.name() {
			return nil, s.denied(ctx, caller)
		}
		person = caller.name()
	}
	limit := int(req.GetPage().GetSize())
	switch {
	case limit < 0 || limit > maxPageSize:
		return nil, rpcerr.Field("page.size", "must be at most 1000")
	case limit == 0:
		limit = defaultPageSize
	}
	all, err := s.d.Desk.List(ctx, person)
	if err != nil {
		return nil, wire.Error(err)
	}
	if after := req.GetPage().GetToken(); after != "" {
		place, name, found := strings.Cut(after, " ")
		if !found {
			return nil, rpcerr.Field("page.token", "is not one that the hub returned")
		}
		all = slices.DeleteFunc(all, func(x catalog.Session) bool {
			return cmp.Or(cmp.Compare(x.Person, name), cmp.Compare(placeOf(x), place)) <= 0
		})
	}
	slices.SortFunc(all, func(a, b catalog.Session) int {
		return cmp.Or(cmp.Compare(a.Person, b.Person), cmp.Compare(placeOf(a), placeOf(b)))
	})
	res := &fleetv1.ListSessionsResponse{}
	if len(all) > limit {
		all = all[:limit]
		res.NextPageToken = placeOf(all[limit-1]) + " " + all[limit-1].Person
	}
	res.Sessions = wire.Each(all, sessionMessage)
	return res, nil
}

// placeOf orders the sessions of a person.
func placeOf(s catalog.Session) string {
	return s.CreatedAt.UTC().Format("20060102T150405.000000") + "." + s.ID
}

// RevokeSession implements SessionService. A session of another person does not exist for callers
// who may end only their own.
func (s *Service) RevokeSession(ctx context.Context, req *fleetv1.RevokeSessionRequest) (*fleetv1.RevokeSessionResponse, error) {
	caller, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	switch id, person := req.GetId(), req.GetPerson(); {
	case (id == "") == (person == ""):
		return nil, rpcerr.Field("id", "is required, or person, and not both")
	case person != "":
		if person != caller.name() && !s.isPermitted(ctx, caller) {
			return nil, s.denied(ctx, caller)
		}
		n, err := s.d.Desk.RevokePerson(ctx, person)
		return &fleetv1.RevokeSessionResponse{Revoked: int32(n)}, wire.Error(err)
	default:
		known, ok, err := fleet.LookTwice(ctx, s.d.View, func() (catalog.Session, bool) { return s.d.View.Accounts().Session(id) })
		if err != nil {
			return nil, wire.Error(err)
		}
		if !ok || known.Expired(time.Now()) || known.Person != caller.name() && !s.isPermitted(ctx, caller) {
			return nil, wire.NotFound(catalog.Key{Kind: catalog.KindSession, Name: id})
		}
		return &fleetv1.RevokeSessionResponse{Revoked: 1}, wire.Error(s.d.Desk.Revoke(ctx, id))
	}
}

// caller is a person who makes a call.
type caller struct{ fleet.Person }

func (c caller) name() string { return c.Identity().Name }

// person returns the caller if it is a person, with the groups that it has now.
func (s *Service) person(ctx context.Context) (caller, error) {
	id, _ := identity.FromContext(ctx)
	if id.Kind != identity.KindUser {
		return caller{}, wire.Denied("only people may call this")
	}
	person, ok, err := s.d.View.AdmitPerson(ctx, id)
	if err != nil {
		return caller{}, wire.Error(err)
	}
	if !ok {
		return caller{}, wire.TokenInvalid("the user, session or API token behind this one has ended; sign in again")
	}
	return caller{person}, nil
}

// isPermitted reports whether the caller has the call's permission, which is for the sessions of
// everybody.
func (s *Service) isPermitted(ctx context.Context, c caller) bool {
	return s.d.View.Accounts().Rights(c.Person).Allows(needs(ctx), authz.Object{})
}

// needs returns the permission that the call's option names.
func needs(ctx context.Context) catalog.Permission {
	access := permission.OfCall(ctx)
	return catalog.Permission{Verb: access.Verb, Resource: access.Resource}
}

func (s *Service) denied(ctx context.Context, c caller) error {
	return wire.Error(s.d.View.Accounts().Rights(c.Person).Denied(needs(ctx), catalog.Key{}))
}

// present returns the session that the caller presents: in the request as ID.TOKEN, or in the
// cookie of the hub's own pages. Its ID is apiCookie if it is the token of a browser, which counts in
// the cookie alone.
func present(ctx context.Context, token string) (session.Presented, error) {
	prefixOf := func(string) string { return session.TokenPrefix }
	if token == "" {
		info, ok := connect.CallInfoForHandlerContext(ctx)
		if !ok {
			return session.Presented{}, ended()
		}
		kept := cookieOf(info.RequestHeader())
		if kept == nil {
			return session.Presented{}, rpcerr.Field("session_token", "is required outside of the hub's own pages")
		}
		if _, err := ownPage(ctx); err != nil {
			return session.Presented{}, err
		}
		token = kept.Value
		prefixOf = func(id string) string {
			if id == apiCookie {
				return admission.APITokenPrefix
			}
			return session.TokenPrefix
		}
	}
	id, text, ok := loginpages.ParseSession(token)
	if !ok || !strings.HasPrefix(text, prefixOf(id)) {
		return session.Presented{}, ended()
	}
	return session.Presented{ID: id, Token: secret.Text(text)}, nil
}

func checkHash(field string, hash []byte) error {
	if len(hash) != sha256.Size {
		return rpcerr.Field(field, "must be a SHA-256 of 32 bytes")
	}
	return nil
}

func ended() error { return wire.TokenInvalid("the session has ended; sign in again with leat login") }

// mapped returns the error to answer with.
func mapped(err error) error {
	switch {
	case errors.Is(err, session.ErrBusy):
		return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED,
			"too many callers without a session; try again in a moment", rpcerr.RetryAfter(busyRetry))
	case errors.Is(err, session.ErrReused):
		return wire.TokenInvalid("a token of the session was used twice, so somebody else may have it; the session has ended: sign in again with leat login")
	case errors.Is(err, session.ErrEnded):
		return ended()
	case errors.Is(err, session.ErrProof):
		return wire.TokenInvalid("the proof of the sign-in is not valid, or no longer; begin again with leat login")
	}
	return wire.Error(err)
}

func sessionMessage(s catalog.Session) *fleetv1.Session {
	return &fleetv1.Session{
		Id: s.ID, Person: s.Person, Groups: s.Groups, Provider: s.Provider, Client: clientMessage(s.Client),
		CreateTime: catalogwire.Timestamp(s.CreatedAt), LastUsedTime: catalogwire.Timestamp(s.LastUsedAt), ExpireTime: catalogwire.Timestamp(s.EndsAt),
	}
}

func clientMessage(c catalog.SessionClient) fleetv1.SessionClient {
	switch c {
	case catalog.ClientCLI:
		return fleetv1.SessionClient_SESSION_CLIENT_CLI
	case catalog.ClientDevice:
		return fleetv1.SessionClient_SESSION_CLIENT_DEVICE
	case catalog.ClientBrowser:
		return fleetv1.SessionClient_SESSION_CLIENT_BROWSER
	}
	return fleetv1.SessionClient_SESSION_CLIENT_UNSPECIFIED
}
