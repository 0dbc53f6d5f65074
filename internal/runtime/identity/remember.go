// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// rememberFor bounds how long an accepted signature is trusted without verifying it again. A
// withdrawn key keeps working for at most that much longer.
const rememberFor = time.Minute

// Remember returns a verifier that caches the last tokens that it accepted, at most limit of them:
// verifying a signature costs some fifty times as much as a look-up. It is for verifiers that
// decide by signature and time alone. No token is cached for longer than a minute or past its end.
// Refused tokens are not cached, and only hashes of tokens are kept.
func Remember(verifier Verifier, limit int) (Verifier, error) {
	known, err := lru.New[[sha256.Size]byte, verdict](limit)
	if err != nil {
		return nil, fmt.Errorf("remember tokens: %w", err)
	}
	return verifierFunc(func(ctx context.Context, token string) (Identity, error) {
		key := sha256.Sum256([]byte(token))
		if v, ok := known.Get(key); ok && time.Now().Before(v.until) {
			return v.id, nil
		}
		id, err := verifier.Verify(ctx, token)
		if err != nil {
			return Identity{}, err
		}
		until := time.Now().Add(rememberFor)
		if id.Expires.Before(until) {
			until = id.Expires
		}
		known.Add(key, verdict{id: id, until: until})
		return id, nil
	}), nil
}

// verdict is a verified identity, and how long it may be used.
type verdict struct {
	id    Identity
	until time.Time
}
