// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package identity authenticates callers: it makes tokens, verifies them, and carries the result in
// the context.
//
// There are four kinds of token, and a verifier of one kind never accepts another:
//
//   - access tokens, signed with Ed25519 by the distributor's [Issuer] for clusters and people, and verified
//     against its key set ([JWKS]);
//   - service tokens, which the services of one hub make for each other, each service with its own key ([ServiceKey],
//     [ServiceKeys]);
//   - assertions, signed by an agent's own key and valid for one minute, which the agent exchanges for an access token
//     ([SignAssertion], [VerifyAssertion]);
//   - hub tokens, signed by the Issuer, with which the hub proves its identity to an agent that it has dialled
//     ([Issuer.IssueHubToken], [VerifyHubToken]).
//
// Every token is for one receiver, its audience: a service, or one replica of it. This package does
// not decide what a caller may do.
package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"
)

// Kind is the sort of caller that an [Identity] describes.
type Kind string

// The kinds of callers; also the first part of a token's subject.
const (
	KindCluster Kind = "cluster"
	KindUser    Kind = "user"
	KindService Kind = "service"
)

// ErrTokenInvalid is in the chain of the error for a token that is malformed, expired, signed by an
// unknown key or meant for another receiver. The error's text is for logs: callers only learn that
// the token is invalid.
var ErrTokenInvalid = errors.New("token is invalid")

// ErrUnavailable is in the chain of the error for a token that cannot be verified now, because the
// keys it needs cannot be fetched. The same token may be accepted later.
var ErrUnavailable = errors.New("token cannot be verified now")

// Identity is a verified caller. The zero Identity is no caller.
type Identity struct {
	Kind Kind
	// Name of the cluster, person or service.
	Name string
	// UID of the cluster or person. A name that was deleted and made again has another UID. Empty
	// for services.
	UID string
	// Groups of a person; empty for others.
	Groups []string
	// TokenID is the token's jti, for audit and revocation.
	TokenID string
	// Credential identifies what a person's token was issued for, such as an API token. When the
	// credential is revoked, so is the token. Empty when unknown.
	Credential string
	// Claims describe the workload that a token was issued to, by the claims of the token that it
	// showed: iss, sub, and others. They are for the record, and decide nothing. Nil for others.
	Claims map[string]string
	// Expires is when the token ends. A stream that outlives it must check again.
	Expires time.Time
}

// Subject returns the token subject, such as "cluster:demo", or "" for the zero Identity.
func (id Identity) Subject() string {
	if id.Kind == "" {
		return ""
	}
	return string(id.Kind) + ":" + id.Name
}

// IsZero reports whether the identity is the zero Identity.
func (id Identity) IsZero() bool { return id.Kind == "" }

// ParseSubject splits a token subject. Its errors match [ErrTokenInvalid].
func ParseSubject(subject string) (Kind, string, error) {
	kind, name, found := strings.Cut(subject, ":")
	if !found || name == "" {
		return "", "", fmt.Errorf("%w: subject %q has no kind or no name", ErrTokenInvalid, subject)
	}
	switch Kind(kind) {
	case KindCluster, KindUser, KindService:
		return Kind(kind), name, nil
	}
	return "", "", fmt.Errorf("%w: subject %q is of an unknown kind", ErrTokenInvalid, subject)
}

type contextKey struct{}

// NewContext returns a context that carries the caller's identity.
func NewContext(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, id)
}

// FromContext returns the caller's identity, and false when the call was not authenticated.
func FromContext(ctx context.Context) (Identity, bool) {
	id, found := ctx.Value(contextKey{}).(Identity)
	return id, found
}

// Verifier turns a token into an identity. Its errors match [ErrTokenInvalid] or [ErrUnavailable];
// others are defects. Implementations are safe for concurrent use and cache no result past the
// token's end.
type Verifier interface {
	Verify(ctx context.Context, token string) (Identity, error)
}

// verifierFunc is a function as a [Verifier].
type verifierFunc func(ctx context.Context, token string) (Identity, error)

// Verify implements [Verifier].
func (f verifierFunc) Verify(ctx context.Context, token string) (Identity, error) {
	return f(ctx, token)
}

// TokenSource returns the token to call others with, which stays valid for some time.
// Implementations are safe for concurrent use.
type TokenSource interface {
	Token(ctx context.Context) (string, error)
}

// StaticToken is a [TokenSource] that always gives the same token.
type StaticToken string

// Token returns the token.
func (t StaticToken) Token(context.Context) (string, error) { return string(t), nil }

// Chain accepts what any of the verifiers accepts, asked in order. When none accepts, an error that
// is not [ErrTokenInvalid] wins over one that is: the verifier that could not decide might have
// accepted.
func Chain(verifiers ...Verifier) Verifier {
	return verifierFunc(func(ctx context.Context, token string) (Identity, error) {
		verdict := fmt.Errorf("%w: no verifier", ErrTokenInvalid)
		for i, verifier := range verifiers {
			id, err := verifier.Verify(ctx, token)
			if err == nil {
				return id, nil
			}
			if i == 0 || errors.Is(verdict, ErrTokenInvalid) && !isAdvised(verdict) {
				verdict = err
			}
		}
		return Identity{}, verdict
	})
}

// Logged returns a verifier that logs the errors that no verifier should return, such as a failing
// database, whose text no caller may see. The RPC interceptor logs them itself, but [Authenticate]
// has no logger.
func Logged(verifier Verifier, logger *slog.Logger) Verifier {
	return verifierFunc(func(ctx context.Context, token string) (Identity, error) {
		id, err := verifier.Verify(ctx, token)
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrTokenInvalid) && !errors.Is(err, ErrUnavailable) {
			logger.ErrorContext(ctx, "verifier failed", slog.Any("error", err))
		}
		return id, err
	})
}

// serviceName prevents a service from adding other text to its subject.
var serviceName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
