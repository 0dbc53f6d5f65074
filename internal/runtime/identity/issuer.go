// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// SigningKey is one of the keys with which an [Issuer] signs in turn.
type SigningKey struct {
	Private ed25519.PrivateKey
	// CreatedAt is when the key was made. The key is published from then on.
	CreatedAt time.Time
	// SignsAt is when the key begins to sign. Until then, verifiers that cache the key set learn it.
	SignsAt time.Time
	// EndsAt is when the key is withdrawn, with the tokens that it has signed. Zero: not yet known.
	EndsAt time.Time
}

// Issuer signs access tokens for clusters and people, and publishes the keys that verify them. Its
// keys may change at any time. The zero Issuer must be given keys by [Issuer.Use] before anything
// else. It is safe for concurrent use.
type Issuer struct {
	keys atomic.Pointer[[]issuerKey] // by SignsAt; never empty
	err  error                       // why the issuer is unusable; every call returns it
}

// issuerKey is a key in its published form. A key that only verifies has no private half.
type issuerKey struct {
	private        ed25519.PrivateKey
	public         ed25519.PublicKey
	jwk            jose.JSONWebKey
	signsAt, endAt time.Time
}

// NewIssuer returns an issuer that signs with key. Tokens signed with a retired key stay valid
// until they end. A key of a wrong size makes every call fail.
func NewIssuer(key ed25519.PrivateKey, retired ...ed25519.PublicKey) *Issuer {
	i := new(Issuer)
	if err := i.Use([]SigningKey{{Private: key}}); err != nil {
		return &Issuer{err: err}
	}
	keys := *i.keys.Load()
	for _, public := range retired {
		jwk, err := publishedJWK(public)
		if err != nil {
			return &Issuer{err: err}
		}
		keys = append(keys, issuerKey{public: public, jwk: jwk})
	}
	i.keys.Store(&keys)
	return i
}

// Use replaces all keys. It fails, and changes nothing, if there is no key or one has a wrong size.
func (i *Issuer) Use(keys []SigningKey) error {
	if len(keys) == 0 {
		return errors.New("issuer has no key")
	}
	next := make([]issuerKey, len(keys))
	for n, key := range keys {
		if len(key.Private) != ed25519.PrivateKeySize {
			return fmt.Errorf("issuer key has %d bytes, want %d", len(key.Private), ed25519.PrivateKeySize)
		}
		public := publicOf(key.Private)
		jwk, err := publishedJWK(public)
		if err != nil {
			return err
		}
		next[n] = issuerKey{private: key.Private, public: public, jwk: jwk, signsAt: key.SignsAt, endAt: key.EndsAt}
	}
	slices.SortStableFunc(next, func(a, b issuerKey) int { return a.signsAt.Compare(b.signsAt) })
	i.keys.Store(&next)
	return nil
}

func publishedJWK(public ed25519.PublicKey) (jose.JSONWebKey, error) {
	if len(public) != ed25519.PublicKeySize {
		return jose.JSONWebKey{}, fmt.Errorf("retired key has %d bytes, want %d", len(public), ed25519.PublicKeySize)
	}
	return publicJWK(public)
}

// signer returns the key that signs at a time: the one that began last. Before the first one
// begins, that one signs.
func (i *Issuer) signer(now time.Time) issuerKey {
	keys := *i.keys.Load()
	signer := keys[0]
	for _, key := range keys {
		if key.private != nil && !key.signsAt.After(now) {
			signer = key
		}
	}
	return signer
}

// published returns the keys that verify at a time, with the one that signs first.
func (i *Issuer) published(now time.Time) []issuerKey {
	signer := i.signer(now)
	published := []issuerKey{signer}
	for _, key := range *i.keys.Load() {
		if key.jwk.KeyID != signer.jwk.KeyID && (key.endAt.IsZero() || now.Before(key.endAt)) {
			published = append(published, key)
		}
	}
	return published
}

// oldest returns the published key that began to sign first.
func (i *Issuer) oldest(now time.Time) issuerKey {
	for _, key := range *i.keys.Load() {
		if key.private != nil && (key.endAt.IsZero() || now.Before(key.endAt)) {
			return key
		}
	}
	return i.signer(now)
}

// SigningKeyID returns the id of the key that signs now, or "" if the issuer is unusable.
func (i *Issuer) SigningKeyID() string {
	if i.err != nil {
		return ""
	}
	return i.signer(time.Now()).jwk.KeyID
}

// publicOf is key.Public() with its type: the second half of the private key.
func publicOf(key ed25519.PrivateKey) ed25519.PublicKey {
	return ed25519.PublicKey(key[ed25519.PrivateKeySize-ed25519.PublicKeySize:])
}

// Issue signs a token for a cluster or a person. The token is valid at one service, the audience,
// and expires after ttl. Issue ignores TokenID and Expires of id; the token gets its own id.
func (i *Issuer) Issue(id Identity, audience string, ttl time.Duration) (token string, expires time.Time, err error) {
	switch {
	case i.err != nil:
		return "", time.Time{}, fmt.Errorf("issue token: %w", i.err)
	case id.Kind != KindCluster && id.Kind != KindUser || id.Name == "":
		return "", time.Time{}, fmt.Errorf("issue token: subject %q is neither a cluster nor a user", id.Subject())
	case audience == "":
		return "", time.Time{}, errors.New("issue token: no audience")
	case ttl <= 0:
		return "", time.Time{}, errors.New("issue token: lifetime is not positive")
	}
	c := claims{
		Claims: standardClaims(issuer, id.Subject(), audience, ttl), Groups: id.Groups, UID: id.UID, Credential: id.Credential, Workload: id.Claims,
	}
	key := i.signer(time.Now())
	token, err = sign(key.private, key.jwk.KeyID, c)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("issue token: %w", err)
	}
	return token, c.Expiry.Time(), nil
}

// JWKS returns the key set for /.well-known/jwks.json: the current key first, the next one, and the
// keys that have signed still valid tokens; public halves only.
func (i *Issuer) JWKS() ([]byte, error) {
	if i.err != nil {
		return nil, fmt.Errorf("encode key set: %w", i.err)
	}
	var set jose.JSONWebKeySet
	for _, key := range i.published(time.Now()) {
		set.Keys = append(set.Keys, key.jwk)
	}
	return json.Marshal(set)
}

// Verifier returns a verifier that accepts the tokens that this issuer made for an audience.
func (i *Issuer) Verifier(audience string) Verifier {
	return verifierFunc(func(_ context.Context, token string) (Identity, error) {
		if i.err != nil {
			return Identity{}, fmt.Errorf("verify token: %w", i.err)
		}
		parsed, err := parse(token)
		if err != nil {
			return Identity{}, err
		}
		set := make(keySet)
		for _, key := range i.published(time.Now()) {
			set[key.jwk.KeyID] = key.public
		}
		return set.open(parsed, audience)
	})
}

// keySet holds the public keys of the issuer by key id.
type keySet map[string]ed25519.PublicKey

// errUnknownKey means, for a verifier with a cached key set, that the set may be out of date.
var errUnknownKey = fmt.Errorf("%w: signed with an unknown key", ErrTokenInvalid)

func (s keySet) open(token *jwt.JSONWebToken, audience string) (Identity, error) {
	key, known := s[token.Headers[0].KeyID]
	if !known {
		return Identity{}, errUnknownKey
	}
	return open(token, key, []string{audience}, KindCluster, KindUser)
}
