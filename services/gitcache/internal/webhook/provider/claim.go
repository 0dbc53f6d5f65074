// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
)

// maxSkew is how far the time of a generic webhook may be from this replica's.
const maxSkew = 5 * time.Minute

// Claim is the proof in a delivery's headers that its sender knows a secret.
type Claim struct {
	// mac is an HMAC-SHA-256 with the secret as its key, over prefix and body. Nil: token counts.
	mac    []byte
	prefix string
	// token is the secret itself.
	token string
}

// Holds reports whether the claim proves that its sender knows the secret. It takes a time that
// does not depend on the answer.
func (c Claim) Holds(secret secret.Text, body []byte) bool {
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

// DeliveryID names a delivery, so that one that is sent again, by its provider or by an attacker
// who has recorded it, is recognized.
type DeliveryID [sha256.Size]byte

// ID returns the name of a delivery, made of bytes that a sender cannot change without a secret:
// the MAC where there is one. No provider signs the ids that it puts into headers. They count only
// where the secret itself was sent, for a sender that has the secret needs no replay.
func (c Claim) ID(n Notice, body []byte) DeliveryID {
	switch {
	case c.mac != nil:
		return DeliveryID(c.mac)
	case n.delivery != "":
		return sha256.Sum256([]byte(n.delivery))
	default:
		return sha256.Sum256(body)
	}
}

// signature reads a hexadecimal MAC from the first of the headers that holds one.
func signature(prefix string, headers ...string) func(*http.Request, time.Time) (Claim, bool) {
	return func(r *http.Request, _ time.Time) (Claim, bool) {
		for _, header := range headers {
			if mac, ok := parseMAC(r.Header.Get(header), prefix); ok {
				return Claim{mac: mac}, true
			}
		}
		return Claim{}, false
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
func gitlabToken(r *http.Request, _ time.Time) (Claim, bool) {
	token := r.Header.Get("X-Gitlab-Token")
	return Claim{token: token}, token != ""
}

// basicPassword reads the secret as the password of any user.
func basicPassword(r *http.Request, _ time.Time) (Claim, bool) {
	_, password, ok := r.BasicAuth()
	return Claim{token: password}, ok && password != ""
}

// timedSignature reads Leat's own form: a MAC over "timestamp.body", and the timestamp in Unix
// seconds.
func timedSignature(r *http.Request, now time.Time) (Claim, bool) {
	stamp := r.Header.Get("X-Leat-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > maxSkew {
		return Claim{}, false
	}
	mac, ok := parseMAC(r.Header.Get("X-Leat-Signature-256"), "sha256=")
	return Claim{mac: mac, prefix: stamp + "."}, ok
}

// authorization reads the secret from the header that registries are configured to send: as a bearer
// token, as a password, or as it is.
func authorization(r *http.Request, now time.Time) (Claim, bool) {
	header := r.Header.Get("Authorization")
	scheme, token, ok := strings.Cut(header, " ")
	switch {
	case ok && strings.EqualFold(scheme, "Basic"):
		return basicPassword(r, now)
	case ok && strings.EqualFold(scheme, "Bearer"):
		header = strings.TrimSpace(token)
	}
	return Claim{token: header}, header != ""
}
