// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	// MinServiceSecret is the shortest shared secret, in bytes.
	MinServiceSecret = 32

	serviceTokenTTL = 5 * time.Minute
	// serviceTokenRest is how long a token must still be good for to be handed out again.
	serviceTokenRest = time.Minute
)

// ServiceTokens makes and verifies the tokens that the services of one hub call each other with. They need nothing but
// the shared secret, so services go on trusting each other while everything else is down. It is safe for concurrent use.
type ServiceTokens struct {
	service string
	key     []byte

	mu      sync.Mutex
	token   string
	expires time.Time
}

var (
	_ Verifier    = (*ServiceTokens)(nil)
	_ TokenSource = (*ServiceTokens)(nil)
)

// NewServiceTokens returns the tokens of the named service, such as "gitcache". The signing key is derived from the
// secret, so that a secret which also seals stored content is not used twice.
func NewServiceTokens(secret []byte, service string) (*ServiceTokens, error) {
	if len(secret) < MinServiceSecret {
		return nil, fmt.Errorf("make service tokens: secret has %d bytes, want at least %d", len(secret), MinServiceSecret)
	}
	if !serviceName.MatchString(service) {
		return nil, fmt.Errorf("make service tokens: %q is not a service name", service)
	}
	key, err := hkdf.Key(sha256.New, secret, nil, "leat service token v1", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	return &ServiceTokens{service: service, key: key}, nil
}

// errServiceSecret is in the chain of the error, which matches [ErrTokenInvalid], for a service token that was signed with
// another secret. It is the commonest mistake in setting up a hub, so callers are told more of it than of other tokens.
var errServiceSecret = errors.New("signed with another service secret")

// Token returns a token that is good for at least a minute.
func (s *ServiceTokens) Token(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Until(s.expires) > serviceTokenRest {
		return s.token, nil
	}
	c := standardClaims(Identity{Kind: KindService, Name: s.service}.Subject(), rand.Text(), serviceTokenTTL)
	c.Issuer = issuer
	signer, err := newSigner(jose.HS256, s.key, "")
	if err != nil {
		return "", fmt.Errorf("make service token: %w", err)
	}
	token, err := jwt.Signed(signer).Claims(c).Serialize()
	if err != nil {
		return "", fmt.Errorf("make service token: %w", err)
	}
	s.token, s.expires = token, c.Expiry.Time()
	return token, nil
}

// Verify accepts the tokens of every service that holds the same secret.
func (s *ServiceTokens) Verify(_ context.Context, token string) (Identity, error) {
	parsed, err := parse(token, jose.HS256)
	if err != nil {
		return Identity{}, err
	}
	id, err := open(parsed, s.key, KindService)
	if errors.Is(err, jose.ErrCryptoFailure) {
		return Identity{}, fmt.Errorf("%w: %w", errServiceSecret, err)
	}
	return id, err
}
