// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	// MinServiceSecret is the minimum length of a service's secret, in bytes.
	MinServiceSecret = 32

	serviceTokenTTL = 5 * time.Minute
	// serviceTokenRest is the minimum remaining lifetime of a token that is reused.
	serviceTokenRest = time.Minute
	// maxAudiences bounds the tokens that a service caches, one for each receiver.
	maxAudiences = 1024
)

// These are the services of a hub. A service's name is also the audience of tokens that any of its
// replicas may accept.
const (
	ServiceDistributor = "distributor"
	ServiceGitCache    = "gitcache"
	ServiceTunnel      = "tunnel"
)

// ReplicaAudience returns the audience of tokens for one replica of a service. A token for one
// replica is valid at no other.
func ReplicaAudience(service, replica string) string { return service + "/" + replica }

// ServiceKey is the key with which one service of the hub proves its identity. It is derived from
// the service's own secret. So all replicas of a service have the same key, and no other service
// can make its tokens. It is safe for concurrent use.
type ServiceKey struct {
	service string
	private ed25519.PrivateKey
	id      string

	mu   sync.Mutex
	made map[string]madeToken // by audience
}

type madeToken struct {
	token           string
	issued, expires time.Time
}

// serves reports whether the token may still be sent. One that was made later than now was made by a clock that was
// ahead and has been set back: others refuse it.
func (m madeToken) serves(now time.Time) bool {
	return !now.Before(m.issued) && m.expires.Sub(now) > serviceTokenRest
}

// NewServiceKey returns the key of the named service, such as "gitcache". A secret that is an Ed25519
// private key in PEM (PKCS #8) is the service's key itself. From any other secret the key is
// derived. The secret also seals the service's stored data; each use derives a separate key from its
// text (HKDF, RFC 5869).
func NewServiceKey(secret []byte, service string) (*ServiceKey, error) {
	if len(secret) < MinServiceSecret {
		return nil, fmt.Errorf("make service key: secret has %d bytes, want at least %d", len(secret), MinServiceSecret)
	}
	if !serviceName.MatchString(service) {
		return nil, fmt.Errorf("make service key: %q is not a service name", service)
	}
	private, err := privateKeyOf(secret, service)
	if err != nil {
		return nil, err
	}
	id, err := KeyID(publicOf(private))
	if err != nil {
		return nil, err
	}
	return &ServiceKey{service: service, private: private, id: id, made: map[string]madeToken{}}, nil
}

// pemStart begins every secret that is a private key. Such a secret is never only the source of a
// key: otherwise a damaged file would make a working key that LEAT_SERVICE_KEYS does not list.
var pemStart = []byte("-----BEGIN ")

// privateKeyOf returns the private key that a secret is, or the one that is derived from it.
func privateKeyOf(secret []byte, service string) (ed25519.PrivateKey, error) {
	if !bytes.HasPrefix(secret, pemStart) {
		seed, err := hkdf.Key(sha256.New, secret, nil, "leat service key v1 "+service, ed25519.SeedSize)
		if err != nil {
			return nil, fmt.Errorf("derive service key: %w", err)
		}
		return ed25519.NewKeyFromSeed(seed), nil
	}
	block, rest := pem.Decode(secret)
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("make service key: the secret begins like a key in PEM and is not exactly one")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil { // the error of x509 may repeat bytes of the key
		return nil, errors.New("make service key: the secret is not a private key in PKCS #8, as openssl genpkey -algorithm ed25519 makes it")
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("make service key: the secret is a private key of type %T, want Ed25519", parsed)
	}
	return private, nil
}

// Service returns the service's name.
func (k *ServiceKey) Service() string { return k.service }

// Public returns the public key in the form that [ParseServiceKeys] reads: the service's name, "=",
// and the raw key in base64url without padding.
func (k *ServiceKey) Public() string {
	return k.service + "=" + base64.RawURLEncoding.EncodeToString(publicOf(k.private))
}

// For returns a source of tokens with which the service calls one receiver: the name of a service,
// or a [ReplicaAudience]. A token stays valid for at least a minute after it was returned.
func (k *ServiceKey) For(audience string) TokenSource {
	return audienceTokens{key: k, audience: audience}
}

type audienceTokens struct {
	key      *ServiceKey
	audience string
}

// Token implements [TokenSource].
func (t audienceTokens) Token(context.Context) (string, error) { return t.key.token(t.audience) }

func (k *ServiceKey) token(audience string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if made, ok := k.made[audience]; ok && made.serves(time.Now()) {
		return made.token, nil
	}
	c := standardClaims(issuer, Identity{Kind: KindService, Name: k.service}.Subject(), audience, serviceTokenTTL)
	token, err := sign(k.private, k.id, c)
	if err != nil {
		return "", fmt.Errorf("make service token: %w", err)
	}
	if len(k.made) >= maxAudiences {
		clear(k.made)
	}
	k.made[audience] = madeToken{token: token, issued: c.IssuedAt.Time(), expires: c.Expiry.Time()}
	return token, nil
}

// ServiceKeys are the public keys of the hub's services. A service may have several while its
// secret is being rotated.
type ServiceKeys struct {
	byID map[string]serviceKey
}

type serviceKey struct {
	service string
	public  ed25519.PublicKey
}

// ParseServiceKeys parses the keys of all services, each in the form that [ServiceKey.Public]
// returns.
func ParseServiceKeys(texts []string) (*ServiceKeys, error) {
	keys := &ServiceKeys{byID: map[string]serviceKey{}}
	for _, text := range texts {
		name, encoded, found := strings.Cut(strings.TrimSpace(text), "=")
		public, err := base64.RawURLEncoding.DecodeString(encoded)
		if !found || err != nil || len(public) != ed25519.PublicKeySize || !serviceName.MatchString(name) {
			return nil, fmt.Errorf("got %q, want NAME=KEY as \"leat keys\" prints it", text)
		}
		id, err := KeyID(public)
		if err != nil {
			return nil, err
		}
		keys.byID[id] = serviceKey{service: name, public: public}
	}
	return keys, nil
}

// Check returns an error if the service's own key is not among the keys: no service would accept
// its tokens.
func (s *ServiceKeys) Check(own *ServiceKey) error {
	if known, ok := s.byID[own.id]; ok && known.service == own.service {
		return nil
	}
	return fmt.Errorf("the key that belongs to the service secret, %s, is not among the service keys: "+
		"give all services of the hub the keys that \"leat keys\" printed with their secrets", own.Public())
}

// errServiceKey is in the chain of the error for a service token with an unknown key. That error
// also matches [ErrTokenInvalid]. An unknown key is the most common mistake in setting up a hub, so
// callers get more detail than for other tokens.
var errServiceKey = errors.New("the service's key is not known here")

// errServiceClock is in the chain of the error for a service token with a known key that is valid at another time than
// now. That error also matches [ErrTokenInvalid]. A service sends no token that is about to expire, so the two clocks
// differ.
var errServiceClock = errors.New("the service's clock differs from this one")

// isAdvised reports whether the caller receives more detail about an error than that its token is invalid.
func isAdvised(err error) bool {
	return errors.Is(err, errServiceKey) || errors.Is(err, errServiceClock)
}

// Verifier returns a verifier that accepts the tokens that the named services made for one of the
// audiences.
func (s *ServiceKeys) Verifier(services []string, audiences ...string) Verifier {
	return verifierFunc(func(_ context.Context, token string) (Identity, error) {
		id, err := s.open(token, audiences)
		if err == nil && !slices.Contains(services, id.Name) {
			return Identity{}, fmt.Errorf("%w: %q may not call this service", ErrTokenInvalid, id.Name)
		}
		return id, err
	})
}

// open returns the service that has made a token for one of the audiences.
func (s *ServiceKeys) open(token string, audiences []string) (Identity, error) {
	parsed, err := parse(token)
	if err != nil {
		return Identity{}, err
	}
	key, known := s.byID[parsed.Headers[0].KeyID]
	switch {
	case !known && claimsService(parsed):
		return Identity{}, fmt.Errorf("%w: %w", errServiceKey, ErrTokenInvalid)
	case !known:
		return Identity{}, errUnknownKey
	}
	id, err := open(parsed, key.public, audiences, KindService)
	switch {
	case errors.Is(err, jwt.ErrExpired), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return Identity{}, fmt.Errorf("%w: %w", errServiceClock, err)
	case err == nil && id.Name != key.service:
		return Identity{}, fmt.Errorf("%w: the key of %q may not speak as %q", ErrTokenInvalid, key.service, id.Name)
	}
	return id, err
}

// claimsService reports whether a token claims, without proof, that a service made it.
func claimsService(token *jwt.JSONWebToken) bool {
	var c jwt.Claims
	if token.UnsafeClaimsWithoutVerification(&c) != nil {
		return false
	}
	kind, _, err := ParseSubject(c.Subject)
	return err == nil && kind == KindService
}
