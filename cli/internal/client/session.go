// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/settings"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/durable"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
)

const (
	// tokenPrefix begins the tokens of sessions.
	tokenPrefix = "leatses_"
	// sessionReserve is how long before its end an access token of a session is replaced. It is
	// less than half of the shortest life of such a token.
	sessionReserve = time.Minute
	// lockWait is the pause between two attempts at a lock that another process holds.
	lockWait = 50 * time.Millisecond
)

// ErrSignedOut means that there is no session any more.
var ErrSignedOut error = failure.New("you are not signed in any more", "Sign in with leat login.")

// kept is a session's file. It holds secrets.
type kept struct {
	ID    string `json:"id"`
	Token string `json:"token"`
	// Next is the token that replaces Token with the call that is under way. It is stored before
	// the call, so that the call can be repeated if its answer is lost.
	Next string `json:"next,omitempty"`
	// Access holds the latest access token of each audience.
	Access map[string]AccessToken `json:"access,omitempty"`
}

// Session is a person's sign-in with an identity provider, kept in a file that only its owner can
// read. Processes take turns at the file, because each use replaces the session's token.
type Session struct {
	path string
	hub  fleetv1connect.SessionServiceClient
}

// Sessions returns the calls of a hub that sign people in.
func Sessions(p Params) (fleetv1connect.SessionServiceClient, error) {
	params := rpc.ClientParams{BaseURL: p.Server, Telemetry: telemetry.Noop(), IsOutside: true, CAPEM: p.CAPEM}
	base, err := rpc.NewClient(params)
	if err != nil {
		return nil, fmt.Errorf("connect to %q: %w", p.Server, err)
	}
	return fleetv1connect.NewSessionServiceClient(base.HTTP, base.BaseURL, base.Options...), nil
}

// OpenSession returns the session whose file is at path. It reads nothing yet.
func OpenSession(path string, p Params) (*Session, error) {
	hub, err := Sessions(p)
	return &Session{path: path, hub: hub}, err
}

// NewSessionToken returns a token for a new session, and the hash that the hub is given.
func NewSessionToken() (token string, hash []byte) {
	token = tokenPrefix + rand.Text() + rand.Text()
	sum := sha256.Sum256([]byte(token))
	return token, sum[:]
}

// SaveSession writes the file of a new session.
func SaveSession(path, id, token string) error {
	return write(path, kept{ID: id, Token: token})
}

func write(path string, k kept) error {
	content, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("store session: %w", err)
	}
	if err := settings.WriteFile(path, content); err != nil {
		return fmt.Errorf("store session: %w", err)
	}
	return nil
}

func (s *Session) read() (k kept, err error) {
	content, err := os.ReadFile(s.path)
	if errors.Is(err, os.ErrNotExist) {
		return k, ErrSignedOut
	}
	if err != nil {
		return k, fmt.Errorf("read session: %w", err)
	}
	if err := json.Unmarshal(content, &k); err != nil || k.ID == "" || k.Token == "" {
		return k, ErrSignedOut
	}
	return k, nil
}

// AccessToken returns an access token for one service of the hub. It is obtained from the hub when
// the stored one is about to end.
func (s *Session) AccessToken(ctx context.Context, audience string) (AccessToken, error) {
	if k, err := s.read(); err != nil {
		return AccessToken{}, err
	} else if token := k.Access[audience]; token.lasts(sessionReserve) {
		return token, nil
	}
	lock, err := s.lock(ctx)
	if err != nil {
		return AccessToken{}, err
	}
	defer func() { _ = lock.Close() }()
	k, err := s.read() // another process may have been here
	if err != nil {
		return AccessToken{}, err
	}
	if token := k.Access[audience]; token.lasts(sessionReserve) {
		return token, nil
	}
	return s.exchange(ctx, k, audience)
}

// exchange replaces the session's token and obtains an access token. The caller holds the lock.
func (s *Session) exchange(ctx context.Context, k kept, audience string) (AccessToken, error) {
	if k.Next == "" {
		k.Next, _ = NewSessionToken()
		if err := write(s.path, k); err != nil {
			return AccessToken{}, err
		}
	}
	sum := sha256.Sum256([]byte(k.Next))
	res, err := s.hub.CreateAccessToken(ctx, &fleetv1.SessionServiceCreateAccessTokenRequest{
		Audience: audience, SessionToken: k.ID + "." + k.Token, NextTokenHash: sum[:],
	})
	if connect.CodeOf(err) == connect.CodeUnauthenticated {
		// Nothing here is of use any more, and the next call need not ask.
		return AccessToken{}, errors.Join(err, os.Remove(s.path))
	}
	if err != nil {
		return AccessToken{}, err
	}
	token := AccessToken{Token: res.GetAccessToken(), Expires: res.GetExpireTime().AsTime()}
	k.Token, k.Next = k.Next, ""
	if k.Access == nil {
		k.Access = map[string]AccessToken{}
	}
	k.Access[audience] = token
	return token, write(s.path, k)
}

// lock waits until no other process uses the session. Where the system has no locks of files, it
// returns at once.
func (s *Session) lock(ctx context.Context) (io.Closer, error) {
	for {
		lock, err := durable.Lock(s.path + ".lock")
		switch {
		case err == nil:
			return lock, nil
		case errors.Is(err, errors.ErrUnsupported):
			return io.NopCloser(nil), nil
		case !errors.Is(err, durable.ErrLocked):
			return nil, fmt.Errorf("lock session: %w", err)
		}
		if err := backoff.Wait(ctx, lockWait); err != nil {
			return nil, fmt.Errorf("wait for another leat that uses the session: %w", err)
		}
	}
}

// SignOut ends the session at the hub and removes its file. A session that has ended is no error.
func (s *Session) SignOut(ctx context.Context) error {
	lock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	k, err := s.read()
	if errors.Is(err, ErrSignedOut) {
		return nil
	}
	if err != nil {
		return err
	}
	tokens := []string{k.Token}
	if k.Next != "" {
		tokens = []string{k.Next, k.Token} // whichever the hub knows
	}
	for _, token := range tokens {
		if _, err := s.hub.SignOut(ctx, &fleetv1.SignOutRequest{SessionToken: k.ID + "." + token}); err != nil {
			return err
		}
	}
	return os.Remove(s.path)
}

// sessionTokens are access tokens for the hub itself.
type sessionTokens struct{ *Session }

var _ identity.TokenSource = sessionTokens{}

// Token implements identity.TokenSource.
func (s sessionTokens) Token(ctx context.Context) (string, error) {
	token, err := s.AccessToken(ctx, identity.ServiceDistributor)
	return token.Token, err
}
