// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	// HubTokenTTL is the longest lifetime of a hub token.
	HubTokenTTL = 2 * time.Minute
	// hubSubject is the one service that dials agents.
	hubSubject = "service:tunnel"
	// hubAudience begins the audience of hub tokens, which no verifier of other tokens accepts.
	hubAudience = "cluster-uid:"
)

// hubClaims are the claims of the token with which the hub proves its identity to an agent that it
// has dialled.
type hubClaims struct {
	jwt.Claims
	Confirmation confirmation `json:"cnf"`
}

// confirmation binds a token to a key (RFC 7800), by the thumbprint of RFC 7638, as RFC 9449 does.
type confirmation struct {
	Thumbprint string `json:"jkt"`
}

// IssueHubToken signs the token with which the service proves to a cluster's agent that it is the
// hub. The token is valid once, for [HubTokenTTL], and only for an agent that holds agentKey, the
// key that the other end of the connection has proved to hold. A middleman that presents a key of
// its own therefore gets a token that no agent accepts.
func (i *Issuer) IssueHubToken(service Identity, clusterUID string, agentKey ed25519.PublicKey) (string, error) {
	switch {
	case i.err != nil:
		return "", fmt.Errorf("issue hub token: %w", i.err)
	case service.Subject() != hubSubject || clusterUID == "":
		return "", errors.New("issue hub token: want the tunnel and a cluster's uid")
	}
	thumbprint, err := KeyID(agentKey)
	if err != nil {
		return "", fmt.Errorf("issue hub token: %w", err)
	}
	key := i.oldest(time.Now())
	token, err := sign(key.private, key.jwk.KeyID, hubClaims{
		Claims:       standardClaims(issuer, service.Subject(), hubAudience+clusterUID, HubTokenTTL),
		Confirmation: confirmation{Thumbprint: thumbprint},
	})
	if err != nil {
		return "", fmt.Errorf("issue hub token: %w", err)
	}
	return token, nil
}

// HubTokenParams are the expected properties of a hub token.
type HubTokenParams struct {
	// Keys are the hub's signing keys.
	Keys []ed25519.PublicKey
	// ClusterUID is the uid of the agent's cluster. Empty: the agent does not know it yet, and
	// accepts any.
	ClusterUID string
	// AgentKey is the agent's own public key.
	AgentKey ed25519.PublicKey
}

// VerifyHubToken checks a token of [Issuer.IssueHubToken], and returns its id. Errors match
// [ErrTokenInvalid]. The caller must refuse an id that it has seen within the last three minutes:
// this function keeps no memory.
func VerifyHubToken(token string, p HubTokenParams) (id string, err error) {
	parsed, err := parse(token)
	if err != nil {
		return "", err
	}
	var c hubClaims
	key, err := hubKey(parsed.Headers[0].KeyID, p.Keys)
	if err != nil {
		return "", err
	}
	if err := parsed.Claims(key, &c); err != nil {
		return "", fmt.Errorf("%w: %w", ErrTokenInvalid, err)
	}
	return c.ID, c.check(p)
}

func (c hubClaims) check(p HubTokenParams) error {
	if len(c.Audience) != 1 || !strings.HasPrefix(c.Audience[0], hubAudience) {
		return fmt.Errorf("%w: it is not a hub token", ErrTokenInvalid)
	}
	wanted := c.Audience[0]
	if p.ClusterUID != "" {
		wanted = hubAudience + p.ClusterUID
	}
	if err := validate(c.Claims, issuer, wanted); err != nil {
		return err
	}
	own, err := KeyID(p.AgentKey)
	switch {
	case err != nil:
		return err
	case c.Subject != hubSubject:
		return fmt.Errorf("%w: %q dials no agents", ErrTokenInvalid, c.Subject)
	case c.Expiry.Time().Sub(c.IssuedAt.Time()) > HubTokenTTL || c.ID == "":
		return fmt.Errorf("%w: it lives too long, or has no jti", ErrTokenInvalid)
	case c.Confirmation.Thumbprint != own:
		return fmt.Errorf("%w: it is bound to another agent's key", ErrTokenInvalid)
	}
	return nil
}

func hubKey(id string, keys []ed25519.PublicKey) (ed25519.PublicKey, error) {
	for _, key := range keys {
		if known, err := KeyID(key); err == nil && known == id {
			return key, nil
		}
	}
	return nil, errUnknownKey
}

// HubKeys returns the public keys of [Issuer.JWKS] in the form that [ParseHubKeys] reads: raw, in
// base64url without padding.
func (i *Issuer) HubKeys() []string {
	if i.err != nil {
		return nil
	}
	var texts []string
	for _, key := range i.published(time.Now()) {
		texts = append(texts, base64.RawURLEncoding.EncodeToString(key.public))
	}
	return texts
}

// ParseHubKeys parses public keys in the form of [Issuer.HubKeys].
func ParseHubKeys(texts []string) ([]ed25519.PublicKey, error) {
	keys := make([]ed25519.PublicKey, 0, len(texts))
	for _, text := range texts {
		key, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || len(key) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("%q is not an Ed25519 public key in base64url", text)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// ParseKeySet parses the Ed25519 signing keys that the hub serves at /.well-known/jwks.json. A set
// without any is an error.
func ParseKeySet(content []byte) ([]ed25519.PublicKey, error) {
	set, err := parseKeySet(content)
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(set), func(a, b ed25519.PublicKey) int { return bytes.Compare(a, b) }), nil
}
