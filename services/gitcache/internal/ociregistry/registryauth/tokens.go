// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package registryauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	rememberTokens = 10_000
	// maxTokenAnswer bounds the answer of a token server.
	maxTokenAnswer = 128 << 10
	// minLifetime is how long a token without a lifetime is good (distribution's token specification),
	// maxLifetime bounds a token's own.
	minLifetime = 60 * time.Second
	maxLifetime = 12 * time.Hour
	// expiresEarly is how long before its end a token is not used any more.
	expiresEarly = 10 * time.Second
	// basicLifetime is how long it is remembered that a registry takes the credential itself.
	basicLifetime = time.Hour
)

// ErrAnswer marks an answer that is not what a registry or a token server gives.
var ErrAnswer = errors.New("answer is not that of a registry")

// Tokens remember which header a registry took. They may be used concurrently.
type Tokens struct {
	known *lru.Cache[string, remembered]
}

type remembered struct {
	header string
	until  time.Time
}

// NewTokens returns Tokens that remember nothing yet.
func NewTokens() (*Tokens, error) {
	known, err := lru.New[string, remembered](rememberTokens)
	return &Tokens{known: known}, err
}

func (t *Tokens) get(key string, now time.Time) string {
	r, ok := t.known.Get(key)
	if !ok || !now.Before(r.until) {
		return ""
	}
	return r.header
}

func (t *Tokens) put(key, header string, until time.Time) {
	t.known.Add(key, remembered{header: header, until: until.Add(-expiresEarly)})
}

func (t *Tokens) forget(key string) { t.known.Remove(key) }

// parseToken reads a token and how long it is good.
func parseToken(body io.Reader) (string, time.Duration, error) {
	var got struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
	}
	if err := json.NewDecoder(io.LimitReader(body, maxTokenAnswer)).Decode(&got); err != nil {
		return "", 0, fmt.Errorf("%w: a token server answers without JSON", ErrAnswer)
	}
	token := got.Token
	if token == "" {
		token = got.AccessToken
	}
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", 0, fmt.Errorf("%w: a token server gives no token", ErrAnswer)
	}
	lifetime := min(time.Duration(min(got.ExpiresIn, int64(maxLifetime/time.Second)))*time.Second, maxLifetime)
	return token, max(lifetime, minLifetime), nil
}
