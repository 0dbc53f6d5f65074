// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package oidclogin

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/distributor/internal/access/trust"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// maxIssuers bounds the issuers whose keys are kept.
	maxIssuers = 1024
	// maxKeys bounds the keys of one issuer that are read.
	maxKeys = 128
	// Bounds of RSA keys: the time of a verification grows with the square of the length.
	minRSABits, maxRSABits = 2048, 8192
)

// algorithms are the algorithms of issuers' tokens. None of them has a key that is shared.
func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
	}
}

// IssuersParams are the settings of Issuers.
type IssuersParams struct {
	// Guard decides which addresses are dialled.
	Guard dialguard.Guard
	// Timeout bounds the reading of an issuer's keys; zero: ten seconds.
	Timeout time.Duration
}

// Issuers verifies the tokens of the issuers that trust rules name. Their keys are read when they are
// first needed, again after an hour, and for an unknown key at most once a minute. While an issuer does
// not answer, the keys that it had count. It is safe for concurrent use.
type Issuers struct {
	p     IssuersParams
	asked singleflight.Group

	mu    sync.Mutex
	known *lru.Cache[string, issuerKeys] // by place
}

var _ trust.Verifier = (*Issuers)(nil)

// issuerKeys are an issuer's keys as they were last read. They are not changed.
type issuerKeys struct {
	keys []jose.JSONWebKey
	// readAt is when they were read, zero if that never succeeded, and triedAt when it was last tried.
	readAt, triedAt time.Time
	err             error // of the last try
}

// NewIssuers returns Issuers.
func NewIssuers(p IssuersParams) *Issuers {
	if p.Timeout == 0 {
		p.Timeout = callTimeout
	}
	known, _ := lru.New[string, issuerKeys](maxIssuers) // fails only for a limit that is not positive
	return &Issuers{p: p, known: known}
}

// Issuer implements trust.Verifier.
func (*Issuers) Issuer(token string) (string, error) {
	parsed, err := parse(token)
	if err != nil {
		return "", err
	}
	var c struct {
		Issuer string `json:"iss"`
	}
	if err := parsed.UnsafeClaimsWithoutVerification(&c); err != nil {
		return "", fmt.Errorf("%w: %w", trust.ErrToken, err)
	}
	return c.Issuer, nil
}

// parse reads a token that has one signature, and names its key. Keys that a token brings along, or
// addresses of keys, are ignored.
func parse(token string) (*jwt.JSONWebToken, error) {
	if len(token) > trust.MaxToken {
		return nil, fmt.Errorf("%w: it is too long", trust.ErrToken)
	}
	parsed, err := jwt.ParseSigned(token, algorithms())
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", trust.ErrToken, err)
	case len(parsed.Headers) != 1 || parsed.Headers[0].KeyID == "":
		return nil, fmt.Errorf("%w: it names no key", trust.ErrToken)
	}
	return parsed, nil
}

// Verify implements trust.Verifier.
func (s *Issuers) Verify(ctx context.Context, rule *catalog.TrustRule, token string) (trust.Claims, error) {
	parsed, err := parse(token)
	if err != nil {
		return trust.Claims{}, err
	}
	header := parsed.Headers[0]
	keys, err := s.keys(ctx, rule, header.KeyID)
	if err != nil {
		return trust.Claims{}, err
	}
	for _, key := range keys {
		if key.KeyID != header.KeyID || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		var c jwt.Claims
		values := map[string]any{}
		if parsed.Claims(key.Key, &c, &values) == nil {
			return claimsOf(c, values), nil
		}
	}
	return trust.Claims{}, fmt.Errorf("%w: no key of the issuer verifies it", trust.ErrToken)
}

func claimsOf(c jwt.Claims, values map[string]any) trust.Claims {
	at := func(d *jwt.NumericDate) time.Time {
		if d == nil {
			return time.Time{}
		}
		return d.Time()
	}
	return trust.Claims{
		Issuer: c.Issuer, Subject: c.Subject, Audience: c.Audience,
		IssuedAt: at(c.IssuedAt), NotBefore: at(c.NotBefore), ExpiresAt: at(c.Expiry), Values: values,
	}
}

// keys returns the keys of a rule's issuer, which are read again if they are old or lack the one of
// that id.
func (s *Issuers) keys(ctx context.Context, rule *catalog.TrustRule, id string) ([]jose.JSONWebKey, error) {
	if rule.Spec.JWKS != "" {
		return s.inline(rule)
	}
	place := rule.Spec.Issuer + "\n" + rule.Spec.CAPEM
	known := s.find(place)
	if !known.isDue(id, time.Now()) {
		return known.usable()
	}
	answer := s.asked.DoChan(place, func() (any, error) {
		// The first caller may hang up; the others wait for the same answer.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.p.Timeout)
		defer cancel()
		next := s.find(place)
		if !next.isDue(id, time.Now()) {
			return next, nil
		}
		keys, err := s.read(ctx, rule.Spec)
		next.triedAt, next.err = time.Now(), err
		if err == nil {
			next.keys, next.readAt = keys, next.triedAt
		}
		s.keep(place, next)
		return next, nil
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case result := <-answer:
		next, _ := result.Val.(issuerKeys)
		return next.usable()
	}
}

// inline returns the keys in a rule, which are read once.
func (s *Issuers) inline(rule *catalog.TrustRule) ([]jose.JSONWebKey, error) {
	place := "rule\n" + rule.Credential()
	known := s.find(place)
	if known.readAt.IsZero() {
		keys, err := readKeys([]byte(rule.Spec.JWKS))
		if err != nil {
			return nil, err
		}
		known = issuerKeys{keys: keys, readAt: time.Now()}
		s.keep(place, known)
	}
	return known.keys, nil
}

func (s *Issuers) find(place string) issuerKeys {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, _ := s.known.Get(place) // the zero value was never read
	return known
}

func (s *Issuers) keep(place string, next issuerKeys) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.Add(place, next)
}

// isDue reports whether the keys are to be read before a token of the key with that id is verified.
func (k issuerKeys) isDue(id string, at time.Time) bool {
	if k.readAt.IsZero() {
		return at.Sub(k.triedAt) >= failedFor
	}
	has := slices.ContainsFunc(k.keys, func(key jose.JSONWebKey) bool { return key.KeyID == id })
	return (!has || at.Sub(k.readAt) >= discoveredFor) && at.Sub(k.triedAt) >= keysEvery
}

// usable returns the keys, which may be old. Error: trust.ErrUnavailable.
func (k issuerKeys) usable() ([]jose.JSONWebKey, error) {
	if k.readAt.IsZero() {
		return nil, fmt.Errorf("%w: %w", trust.ErrUnavailable, k.err)
	}
	return k.keys, nil
}

// read asks an issuer for its keys.
func (s *Issuers) read(ctx context.Context, spec catalog.TrustRuleSpec) ([]jose.JSONWebKey, error) {
	client, err := newHTTPClient(s.p.Guard, spec.CAPEM)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	body, err := get(ctx, client, strings.TrimSuffix(spec.Issuer, "/")+"/.well-known/openid-configuration")
	if err != nil {
		return nil, err
	}
	var description struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(body, &description); err != nil {
		return nil, errors.New("the issuer's description of itself is not JSON")
	}
	if description.Issuer != spec.Issuer {
		return nil, fmt.Errorf("the issuer calls itself %.200q; correct spec.issuer", description.Issuer)
	}
	if err := checkKeysURL(description.Keys, spec.Issuer); err != nil {
		return nil, err
	}
	if body, err = get(ctx, client, description.Keys); err != nil {
		return nil, err
	}
	return readKeys(body)
}

// checkKeysURL refuses an address that is less protected than the issuer's own.
func checkKeysURL(text, issuer string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !strings.HasPrefix(issuer, "http://")) {
		return fmt.Errorf("the issuer's jwks_uri %.200q is not an https URL", text)
	}
	return nil
}

// get returns the body of an answer, which the client bounds.
func get(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, firstLine(err)
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%.200q answered %d", address, res.StatusCode)
	}
	return io.ReadAll(res.Body)
}

// readKeys returns the keys of a set that verify tokens. Keys of other kinds or lengths are left out.
func readKeys(body []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("%w: the key set is not JSON", trust.ErrUnavailable)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("%w: the key set has %d keys; at most %d are allowed", trust.ErrUnavailable, len(set.Keys), maxKeys)
	}
	var keys []jose.JSONWebKey
	for _, text := range set.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(text) == nil && verifies(key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// verifies reports whether tokens may be signed with a key.
func verifies(key jose.JSONWebKey) bool {
	if key.KeyID == "" || key.Use != "" && key.Use != "sig" {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return public.N.BitLen() >= minRSABits && public.N.BitLen() <= maxRSABits
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false // a private key, or one that is shared
}
