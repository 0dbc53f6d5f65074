// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// sessionAccess begins the access tokens for the hub that sessions are exchanged for.
const sessionAccess = "session-jwt-"

// signIns is a SessionService with one person, ada, whose browser is signed in at the provider.
type signIns struct {
	fleetv1connect.UnimplementedSessionServiceHandler

	mu        sync.Mutex
	provider  string // empty: the hub has no identity provider
	loginURL  string
	challenge string
	polls     int
	sessions  []*signedIn
	begun     int // sessions that ever began
	issued    int // access tokens
}

// signedIn is a session, and the hash of the token that counts.
type signedIn struct {
	*fleetv1.Session
	current []byte
}

func newSignIns() *signIns { return &signIns{} }

// SetProvider gives the hub an identity provider. page is the address of the page on which people sign
// in; empty: the hub's own.
func (h *Hub) SetProvider(name, page string) {
	h.signIns.mu.Lock()
	defer h.signIns.mu.Unlock()
	h.signIns.provider, h.signIns.loginURL = name, cmp.Or(page, h.URL+"/login")
}

// page signs ada in at once, and sends the browser back.
func (s *signIns) page() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		query := r.URL.Query()
		s.challenge = query.Get("code_challenge")
		back := query.Get("redirect_uri") + "?" + url.Values{"code": {"the-code"}, "state": {query.Get("state")}}.Encode()
		w.Header().Set("Location", back)
		w.WriteHeader(http.StatusSeeOther)
	})
}

// GetSignInMethods implements SessionService.
func (s *signIns) GetSignInMethods(context.Context, *fleetv1.GetSignInMethodsRequest) (*fleetv1.GetSignInMethodsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.provider == "" {
		return &fleetv1.GetSignInMethodsResponse{}, nil
	}
	return &fleetv1.GetSignInMethodsResponse{
		Methods: []*fleetv1.SignInMethod{{Name: s.provider, Title: s.provider}}, LoginUrl: s.loginURL,
	}, nil
}

// CreateSignInCode implements SessionService.
func (*signIns) CreateSignInCode(context.Context, *fleetv1.CreateSignInCodeRequest) (*fleetv1.CreateSignInCodeResponse, error) {
	return &fleetv1.CreateSignInCodeResponse{Code: "one-time", ExpireTime: timestamppb.New(time.Now().Add(time.Minute))}, nil
}

// StartDeviceSignIn implements SessionService.
func (s *signIns) StartDeviceSignIn(context.Context, *fleetv1.StartDeviceSignInRequest) (*fleetv1.StartDeviceSignInResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polls = 0
	return &fleetv1.StartDeviceSignInResponse{
		DeviceCode: "the-device", UserCode: "WDJB-MJHT", VerificationUrl: s.loginURL, Interval: durationpb.New(time.Millisecond),
		ExpireTime: timestamppb.New(time.Now().Add(time.Minute)),
	}, nil
}

// CreateSession implements SessionService. The code of the device is typed after the second
// question.
func (s *signIns) CreateSession(_ context.Context, req *fleetv1.CreateSessionRequest) (*fleetv1.CreateSessionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	client := fleetv1.SessionClient_SESSION_CLIENT_CLI
	switch {
	case req.GetDeviceCode() == "the-device":
		if s.polls++; s.polls < 3 {
			return &fleetv1.CreateSessionResponse{}, nil
		}
		client = fleetv1.SessionClient_SESSION_CLIENT_DEVICE
	case req.GetCode() != "the-code", !fits(req.GetCodeVerifier(), s.challenge):
		return nil, ended("the proof is not valid")
	}
	s.begun++
	made := &signedIn{current: req.GetTokenHash(), Session: &fleetv1.Session{
		Id: fmt.Sprint("S", s.begun), Person: "corp.ada", Provider: s.provider, Client: client, CreateTime: timestamppb.Now(),
		ExpireTime: timestamppb.New(time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)),
	}}
	s.sessions = append(s.sessions, made)
	return &fleetv1.CreateSessionResponse{Session: made.Session}, nil
}

func fits(verifier, challenge string) bool {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:]) == challenge
}

// CreateAccessToken implements SessionService.
func (s *signIns) CreateAccessToken(
	_ context.Context, req *fleetv1.SessionServiceCreateAccessTokenRequest,
) (*fleetv1.SessionServiceCreateAccessTokenResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.holding(req.GetSessionToken())
	if held == nil {
		return nil, ended("the session has ended")
	}
	held.current = req.GetNextTokenHash()
	s.issued++
	token := sessionAccess
	if req.GetAudience() == identity.ServiceTunnel {
		token = "jwt-session-"
	}
	return &fleetv1.SessionServiceCreateAccessTokenResponse{
		AccessToken: fmt.Sprint(token, s.issued), ExpireTime: timestamppb.New(time.Now().Add(10 * time.Minute)), Session: held.Session,
	}, nil
}

// holding returns the session whose token counts now, or nil.
func (s *signIns) holding(text string) *signedIn {
	id, token, _ := strings.Cut(text, ".")
	sum := sha256.Sum256([]byte(token))
	for _, held := range s.sessions {
		if id == held.GetId() && bytes.Equal(sum[:], held.current) {
			return held
		}
	}
	return nil
}

// end ends the sessions that isEnding selects, and returns how many.
func (s *signIns) end(isEnding func(*signedIn) bool) int {
	before := len(s.sessions)
	s.sessions = slices.DeleteFunc(s.sessions, isEnding)
	return before - len(s.sessions)
}

// SignOut implements SessionService.
func (s *signIns) SignOut(_ context.Context, req *fleetv1.SignOutRequest) (*fleetv1.SignOutResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.holding(req.GetSessionToken())
	s.end(func(other *signedIn) bool { return other == held })
	return &fleetv1.SignOutResponse{}, nil
}

// ListSessions implements SessionService.
func (s *signIns) ListSessions(_ context.Context, req *fleetv1.ListSessionsRequest) (*fleetv1.ListSessionsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	response := &fleetv1.ListSessionsResponse{}
	for _, held := range s.sessions {
		if req.GetPerson() == "" || req.GetPerson() == held.GetPerson() {
			response.Sessions = append(response.Sessions, held.Session)
		}
	}
	return response, nil
}

// RevokeSession implements SessionService.
func (s *signIns) RevokeSession(_ context.Context, req *fleetv1.RevokeSessionRequest) (*fleetv1.RevokeSessionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	revoked := s.end(func(held *signedIn) bool { return held.GetId() == req.GetId() || held.GetPerson() == req.GetPerson() })
	if revoked == 0 {
		return nil, rpcerr.NotFound("session", req.GetId()+req.GetPerson())
	}
	return &fleetv1.RevokeSessionResponse{Revoked: int32(revoked)}, nil
}

func ended(message string) error {
	return rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID, message)
}
