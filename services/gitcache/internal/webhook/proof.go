// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/secret"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// maxSkew is how far the time of a generic webhook may be from this replica's.
const maxSkew = 5 * time.Minute

// claim is what a delivery's headers offer as a proof that its sender knows a secret.
type claim struct {
	// mac is an HMAC-SHA-256 with the secret as its key, over prefix and body. Nil: token counts.
	mac    []byte
	prefix string
	// token is the secret itself.
	token string
}

// holds reports whether the claim proves that its sender knows the secret. It takes a time that
// does not depend on the answer.
func (c claim) holds(secret secret.Text, body []byte) bool {
	if c.mac != nil {
		h := hmac.New(sha256.New, []byte(secret.Reveal()))
		_, _ = h.Write([]byte(c.prefix)) // a hash does not fail
		_, _ = h.Write(body)
		return hmac.Equal(h.Sum(nil), c.mac)
	}
	// Hashed, because a comparison of texts gives their length away.
	have, want := sha256.Sum256([]byte(c.token)), sha256.Sum256([]byte(secret.Reveal()))
	return subtle.ConstantTimeCompare(have[:], want[:]) == 1
}

// deliveryID names a delivery, so that one that is sent again, by its provider or by an attacker
// who has recorded it, is recognized.
type deliveryID [sha256.Size]byte

// id returns the name of a delivery, made of bytes that a sender cannot change without a secret:
// the MAC where there is one. No provider signs the ids that it puts into headers. They count only
// where the secret itself was sent, for a sender that has the secret needs no replay.
func (c claim) id(n notice, body []byte) deliveryID {
	switch {
	case c.mac != nil:
		return deliveryID(c.mac)
	case n.delivery != "":
		return sha256.Sum256([]byte(n.delivery))
	default:
		return sha256.Sum256(body)
	}
}

// proven is what a claim gives access to.
type proven struct {
	any          bool // some secret fits, if only that of no repository
	repositories []mirror.Definition
}

// prove compares the claim with every secret, so that its duration does not reveal which one fits.
// If the sender named a repository, prove compares with that repository's secret alone, or with
// unknownSecret if it has none. The error is the context's.
func (h *Handler) prove(ctx context.Context, c claim, name string, body []byte) (proven, error) {
	if err := h.verifying.Acquire(ctx, 1); err != nil {
		return proven{}, context.Cause(ctx)
	}
	defer h.verifying.Release(1)
	var p proven
	secrets := h.bySecret(name)
	if name != "" && len(secrets) == 0 { // takes as long as a wrong secret
		_ = c.holds(unknownSecret, body)
	}
	for secret, repositories := range secrets {
		if ctx.Err() != nil {
			return proven{}, context.Cause(ctx)
		}
		if c.holds(secret, body) {
			p.any = true
			p.repositories = append(p.repositories, repositories...)
		}
	}
	return p, nil
}

// unknownSecret replaces the missing secret of a named repository. prove ignores the result of that
// comparison.
const unknownSecret secret.Text = "stands for the secret of a repository that is not there"

// bySecret groups repositories by the secret that their webhooks need, and leaves out repositories
// without one. With a name it returns that repository alone.
func (h *Handler) bySecret(name string) map[secret.Text][]mirror.Definition {
	groups := map[secret.Text][]mirror.Definition{}
	if h.params.DefaultSecret != "" && name == "" {
		groups[h.params.DefaultSecret] = nil
	}
	for _, def := range h.params.Repositories() {
		if name != "" && def.Name != name {
			continue
		}
		secret := def.WebhookSecret
		if secret == "" {
			secret = h.params.DefaultSecret
		}
		if secret != "" {
			groups[secret] = append(groups[secret], def)
		}
	}
	return groups
}

// signature reads a hexadecimal MAC from the first of the headers that holds one.
func signature(prefix string, headers ...string) func(*http.Request, time.Time) (claim, bool) {
	return func(r *http.Request, _ time.Time) (claim, bool) {
		for _, header := range headers {
			if mac, ok := parseMAC(r.Header.Get(header), prefix); ok {
				return claim{mac: mac}, true
			}
		}
		return claim{}, false
	}
}

func parseMAC(text, prefix string) ([]byte, bool) {
	digits, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return nil, false
	}
	mac, err := hex.DecodeString(digits)
	return mac, err == nil && len(mac) == sha256.Size
}

// gitlabToken reads the secret as GitLab sends it.
func gitlabToken(r *http.Request, _ time.Time) (claim, bool) {
	token := r.Header.Get("X-Gitlab-Token")
	return claim{token: token}, token != ""
}

// basicPassword reads the secret as the password of any user.
func basicPassword(r *http.Request, _ time.Time) (claim, bool) {
	_, password, ok := r.BasicAuth()
	return claim{token: password}, ok && password != ""
}

// timedSignature reads Leat's own form: a MAC over "timestamp.body", and the timestamp in Unix
// seconds.
func timedSignature(r *http.Request, now time.Time) (claim, bool) {
	stamp := r.Header.Get("X-Leat-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > maxSkew {
		return claim{}, false
	}
	mac, ok := parseMAC(r.Header.Get("X-Leat-Signature-256"), "sha256=")
	return claim{mac: mac, prefix: stamp + "."}, ok
}
