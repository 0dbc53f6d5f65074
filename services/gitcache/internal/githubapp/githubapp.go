// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package githubapp obtains the short-lived tokens of GitHub App installations: it signs a JWT with
// the app's key, has it exchanged for an installation token, and keeps that until shortly before it
// ends.
package githubapp

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/leatdev/leat/internal/kit/flight"
)

// DefaultAPI is the base URL of github.com's API.
const DefaultAPI = "https://api.github.com"

const (
	// margin is how long before its end a token is no longer given out: a clone may take its time.
	margin = 5 * time.Minute
	// assertionLife stays below the ten minutes that GitHub allows, and clockSkew lets its clock be
	// behind ours.
	assertionLife = 8 * time.Minute
	clockSkew     = time.Minute
	mintTimeout   = 30 * time.Second
	maxAnswer     = 64 << 10
)

// App is one installation of an app. It is comparable, and must not be printed.
type App struct {
	ID           int64
	Installation int64
	PrivateKey   string // PEM, RSA
	APIURL       string // empty: DefaultAPI
	// Via distinguishes requests over different ways, such as proxies. May be empty.
	Via string
}

// RefusedError reports that the API gave no token.
type RefusedError struct {
	Status int
	Host   string
	// Header is the answer's header: it may hold the time at which to come back.
	Header http.Header
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("installation token refused: HTTP status %d from %s", e.Status, e.Host)
}

// Tokens caches the tokens of any number of installations. All methods may be called concurrently.
type Tokens struct {
	exchanges *flight.Group[App, string]

	mu     sync.Mutex
	cached map[App]token
}

type token struct {
	text string
	ends time.Time
}

// NewTokens returns an empty cache.
func NewTokens() *Tokens {
	return &Tokens{exchanges: flight.New[App, string](mintTimeout), cached: map[App]token{}}
}

// Token returns a token that is good for five minutes at least. Calls for one app share one
// exchange, made with the client of the first of them, which continues when that call is given up.
// Errors are the context's, *RefusedError, or the client's.
func (t *Tokens) Token(ctx context.Context, app App, client *http.Client) (string, error) {
	if have, ok := t.lookup(app); ok {
		return have, nil
	}
	return t.exchanges.Do(ctx, app, func(ctx context.Context) (string, error) {
		if have, ok := t.lookup(app); ok { // another exchange ended between the look and the flight
			return have, nil
		}
		fresh, err := exchange(ctx, app, client)
		if err != nil {
			return "", err
		}
		t.keep(app, fresh)
		return fresh.text, nil
	})
}

// Forget drops a token that was refused, unless a newer one has taken its place.
func (t *Tokens) Forget(app App, refused string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cached[app].text == refused {
		delete(t.cached, app)
	}
}

func (t *Tokens) lookup(app App) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	have, ok := t.cached[app]
	return have.text, ok && time.Until(have.ends) > margin
}

// keep also drops what has ended, so that replaced apps do not stay for ever.
func (t *Tokens) keep(app App, fresh token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for other, have := range t.cached {
		if time.Until(have.ends) <= 0 {
			delete(t.cached, other)
		}
	}
	t.cached[app] = fresh
}

// ParseKey reads an RSA key in PEM form, PKCS #1 as GitHub hands it out or PKCS #8.
func ParseKey(text string) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("no PEM block found")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("not a private key in PKCS #1 or PKCS #8 form")
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("not an RSA key")
	}
	return key, nil
}

// sign makes the JWT that proves to be the app.
func sign(app App, now time.Time) (string, error) {
	key, err := ParseKey(app.PrivateKey)
	if err != nil {
		return "", fmt.Errorf("read app key: %w", err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", fmt.Errorf("sign app token: %w", err)
	}
	text, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer:   strconv.FormatInt(app.ID, 10),
		IssuedAt: jwt.NewNumericDate(now.Add(-clockSkew)),
		Expiry:   jwt.NewNumericDate(now.Add(assertionLife)),
	}).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign app token: %w", err)
	}
	return text, nil
}

// exchange asks the API for an installation token. Redirects are not followed: they would carry the
// JWT elsewhere.
func exchange(ctx context.Context, app App, client *http.Client) (token, error) {
	assertion, err := sign(app, time.Now())
	if err != nil {
		return token{}, err
	}
	base := strings.TrimSuffix(app.APIURL, "/")
	if base == "" {
		base = DefaultAPI
	}
	address := base + "/app/installations/" + strconv.FormatInt(app.Installation, 10) + "/access_tokens"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, http.NoBody)
	if err != nil {
		return token{}, fmt.Errorf("ask for installation token: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+assertion)
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("User-Agent", "leat")
	strict := *client
	strict.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := strict.Do(req)
	if err != nil {
		return token{}, fmt.Errorf("ask for installation token: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusCreated {
		return token{}, &RefusedError{Status: resp.StatusCode, Host: req.URL.Host, Header: resp.Header}
	}
	return readToken(resp.Body)
}

func readToken(body io.Reader) (token, error) {
	var answer struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	// The parser's error may repeat a part of the answer, and with it of the token.
	if json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(&answer) != nil || answer.Token == "" ||
		strings.ContainsAny(answer.Token, "\r\n\x00") {
		return token{}, errors.New("the answer to the request for an installation token holds none")
	}
	return token{text: answer.Token, ends: answer.ExpiresAt}, nil
}
