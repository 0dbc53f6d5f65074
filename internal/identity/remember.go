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

// rememberFor bounds how long a signature that was good is taken permanently: how much later than a
// verifier a key that was withdrawn stops working.
const rememberFor = time.Minute

// Remember is verifier with a memory of the last tokens, at most limit, that it accepted: a
// signature costs some fifty times what looking it up does. It is for verifiers that judge by
// signature and time alone. Nothing is remembered for longer than a minute or past the token's end,
// refused tokens are not remembered at all, and of tokens only hashes are kept.
func Remember(verifier Verifier, limit int) (Verifier, error) {
	known, err := lru.New[[sha256.Size]byte, verdict](limit)
	if err != nil {
		return nil, fmt.Errorf("remember tokens: %w", err)
	}
	return &remembering{verifier: verifier, known: known}, nil
}

type remembering struct {
	verifier Verifier
	known    *lru.Cache[[sha256.Size]byte, verdict]
}

// verdict is an identity, and until when it counts.
type verdict struct {
	id    Identity
	until time.Time
}

// Verify implements [Verifier].
func (r *remembering) Verify(ctx context.Context, token string) (Identity, error) {
	key := sha256.Sum256([]byte(token))
	if v, ok := r.known.Get(key); ok && time.Now().Before(v.until) {
		return v.id, nil
	}
	id, err := r.verifier.Verify(ctx, token)
	if err != nil {
		return Identity{}, err
	}
	until := time.Now().Add(rememberFor)
	if id.Expires.Before(until) {
		until = id.Expires
	}
	r.known.Add(key, verdict{id: id, until: until})
	return id, nil
}
