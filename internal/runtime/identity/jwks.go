// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/flight"
)

const (
	// jwksMaxAge is the age at which using the keys refreshes them in the background. It is
	// jittered, so that replicas that started together do not refresh together.
	jwksMaxAge = 5 * time.Minute
	jwksJitter = 0.25
	// jwksMinInterval limits how often tokens with unknown key ids cause a fetch.
	jwksMinInterval = 10 * time.Second
	// jwksFirstInterval replaces it until there are any keys: a hub that starts must not wait long
	// for itself.
	jwksFirstInterval = time.Second
	jwksTimeout       = 10 * time.Second
	jwksMaxBytes      = 1 << 20
)

// JWKSParams are the parameters of [NewJWKS].
type JWKSParams struct {
	// URL of the key set, such as https://hub.example/.well-known/jwks.json.
	URL string
	// Audience is the service whose tokens are accepted. Required.
	Audience string
	// HTTPClient fetches it.
	HTTPClient *http.Client
	// Logger receives a record when the key set cannot be fetched, and when it can be fetched
	// again.
	Logger *slog.Logger
}

// JWKS verifies access tokens against the issuer's published keys.
//
// Keys are fetched when they are first needed, when a token names an unknown one (at most every ten
// seconds), and in the background when they are used at an age of about five minutes. While the
// issuer does not answer, the known keys remain in use, however long that takes. JWKS is safe for
// concurrent use and owns no goroutine between calls.
type JWKS struct {
	params  JWKSParams
	fetches *flight.Group[struct{}, struct{}]

	mu        sync.Mutex
	keys      keySet
	attempted time.Time // when the last fetch began
	refreshAt time.Time // when the next use fetches again in the background
	failing   bool      // the last fetch failed
}

var _ Verifier = (*JWKS)(nil)

// NewJWKS returns a verifier without keys. It does not call the URL yet.
func NewJWKS(params JWKSParams) *JWKS {
	return &JWKS{params: params, fetches: flight.New[struct{}, struct{}](jwksTimeout)}
}

// Verify accepts the tokens of the issuer behind the URL. If there is no key at all, the error is
// [ErrUnavailable].
func (j *JWKS) Verify(ctx context.Context, token string) (Identity, error) {
	parsed, err := parse(token)
	if err != nil {
		return Identity{}, err
	}
	if claimsService(parsed) { // the issuer's keys cannot verify it
		return Identity{}, fmt.Errorf("%w: a service token is not an access token", ErrTokenInvalid)
	}
	id, err := j.current(ctx).open(parsed, j.params.Audience)
	if !errors.Is(err, errUnknownKey) {
		return id, err
	}
	// If the keys are fresh, the unknown key makes the token invalid.
	if _, err := j.fetchShared(ctx).Wait(ctx); err != nil {
		return Identity{}, err
	}
	return j.current(ctx).open(parsed, j.params.Audience)
}

// current returns the known keys, and has them refreshed when they are old.
func (j *JWKS) current(ctx context.Context) keySet {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.keys) > 0 && time.Now().After(j.refreshAt) {
		j.refreshAt = time.Now().Add(jwksMinInterval) // so that concurrent callers do not refresh too
		j.fetchShared(ctx)
	}
	return j.keys
}

// fetchShared fetches once for everybody who asks meanwhile, unless that was done just now. It does
// not block.
func (j *JWKS) fetchShared(ctx context.Context) *flight.Run[struct{}] {
	return j.fetches.Start(ctx, struct{}{}, func(ctx context.Context) (struct{}, error) {
		if j.begin() {
			keys, err := j.fetch(ctx)
			j.finish(ctx, keys, err)
		}
		return struct{}{}, j.outcome()
	})
}

// begin records a fetch, or returns false when the last one is too recent for another.
func (j *JWKS) begin() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	interval := jwksMinInterval
	if len(j.keys) == 0 {
		interval = jwksFirstInterval
	}
	if time.Since(j.attempted) < interval {
		return false
	}
	j.attempted = time.Now()
	return true
}

// outcome returns the error of the last fetch.
func (j *JWKS) outcome() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failing {
		return fmt.Errorf("%w: key set could not be fetched", ErrUnavailable)
	}
	return nil
}

// finish stores the new keys, or keeps the old ones if the fetch failed, and logs a change between
// the two.
func (j *JWKS) finish(ctx context.Context, keys keySet, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil {
		j.keys = keys
		j.refreshAt = time.Now().Add(backoff.Jitter(jwksMaxAge, jwksJitter))
	}
	wasFailing := j.failing
	j.failing = err != nil
	switch url := slog.String("url", j.params.URL); {
	case j.failing && !wasFailing:
		j.params.Logger.WarnContext(ctx, "key set unreachable", url, slog.Int("known_keys", len(j.keys)), slog.Any("error", err))
	case !j.failing && wasFailing:
		j.params.Logger.InfoContext(ctx, "key set reachable again", url, slog.Int("known_keys", len(j.keys)))
	}
}

func (j *JWKS) fetch(ctx context.Context) (keySet, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, j.params.URL, nil)
	if err != nil {
		return nil, fmt.Errorf("fetch key set: %w", err)
	}
	response, err := j.params.HTTPClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("fetch key set: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch key set: server answered %s", response.Status)
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, jwksMaxBytes))
	if err != nil {
		return nil, fmt.Errorf("fetch key set: %w", err)
	}
	return parseKeySet(content)
}

// parseKeySet returns the Ed25519 signing keys and ignores all others. A set without any is an
// error: it must be a mistake, and accepting it would refuse every caller.
func parseKeySet(content []byte) (keySet, error) {
	var document jose.JSONWebKeySet
	if err := json.Unmarshal(content, &document); err != nil {
		return nil, fmt.Errorf("parse key set: %w", err)
	}
	keys := make(keySet)
	for _, jwk := range document.Keys {
		public, isEd25519 := jwk.Key.(ed25519.PublicKey)
		if isEd25519 && jwk.KeyID != "" && (jwk.Use == "" || jwk.Use == "sig") {
			keys[jwk.KeyID] = public
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("parse key set: no Ed25519 key in it")
	}
	return keys, nil
}
