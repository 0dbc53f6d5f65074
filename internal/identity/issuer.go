// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Issuer signs access tokens for clusters and people, and publishes the keys that verify them. It
// is safe for concurrent use.
type Issuer struct {
	key  ed25519.PrivateKey
	keys keySet
	set  jose.JSONWebKeySet
	err  error // why the issuer is unusable; every call returns it
}

// NewIssuer returns an issuer that signs with key. Tokens signed with a retired key stay valid
// until they end. A key of a wrong size makes every call fail.
func NewIssuer(key ed25519.PrivateKey, retired ...ed25519.PublicKey) *Issuer {
	if len(key) != ed25519.PrivateKeySize {
		return &Issuer{err: fmt.Errorf("issuer key has %d bytes, want %d", len(key), ed25519.PrivateKeySize)}
	}
	i := &Issuer{key: key, keys: make(keySet)}
	for _, public := range append([]ed25519.PublicKey{publicOf(key)}, retired...) {
		if err := i.publish(public); err != nil {
			i.err = err
		}
	}
	return i
}

func (i *Issuer) publish(public ed25519.PublicKey) error {
	if len(public) != ed25519.PublicKeySize {
		return fmt.Errorf("retired key has %d bytes, want %d", len(public), ed25519.PublicKeySize)
	}
	jwk, err := publicJWK(public)
	if err != nil {
		return err
	}
	i.keys[jwk.KeyID] = public
	i.set.Keys = append(i.set.Keys, jwk)
	return nil
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
		Claims: standardClaims(issuer, id.Subject(), audience, ttl), Groups: id.Groups, UID: id.UID, Credential: id.Credential,
	}
	token, err = sign(i.key, i.set.Keys[0].KeyID, c)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("issue token: %w", err)
	}
	return token, c.Expiry.Time(), nil
}

// JWKS returns the key set for /.well-known/jwks.json: the current key and the retired ones, public
// halves only.
func (i *Issuer) JWKS() ([]byte, error) {
	if i.err != nil {
		return nil, fmt.Errorf("encode key set: %w", i.err)
	}
	return json.Marshal(i.set)
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
		return i.keys.open(parsed, audience)
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
