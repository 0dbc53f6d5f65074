// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloudtest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// keys are those with which AWS checks a signature.
type keys struct{ id, secret, token string }

var authorization = regexp.MustCompile(
	`^AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})$`)

// clockSkew is how far apart the clocks may be.
const clockSkew = 5 * time.Minute

// verify checks the signature of a request as AWS does: for the keys, the region, the service and the
// time, over everything that matters.
func (k keys) verify(r *http.Request, body []byte, region, service string, now time.Time) error {
	parts := authorization.FindStringSubmatch(r.Header.Get("Authorization"))
	if parts == nil {
		return fmt.Errorf("authorization %q has another form", r.Header.Get("Authorization"))
	}
	id, day, signed, signature := parts[1], parts[2], strings.Split(parts[5], ";"), parts[6]
	date := r.Header.Get("X-Amz-Date")
	at, err := time.Parse("20060102T150405Z", date)
	switch {
	case err != nil || at.Sub(now).Abs() > clockSkew || !strings.HasPrefix(date, day):
		return fmt.Errorf("signed at %q for %s, and it is %s", date, day, now)
	case id != k.id || parts[3] != region || parts[4] != service:
		return fmt.Errorf("signed with %s for %s in %s", id, parts[4], parts[3])
	case r.Header.Get("X-Amz-Security-Token") != k.token:
		return fmt.Errorf("got the session token %q", r.Header.Get("X-Amz-Security-Token"))
	case !slices.IsSorted(signed):
		return fmt.Errorf("headers %v are not sorted", signed)
	}
	for _, header := range []string{"host", "content-type", "x-amz-date", "x-amz-security-token", "x-amz-target"} {
		if !slices.Contains(signed, header) {
			return fmt.Errorf("header %s is not signed", header)
		}
	}
	canonical := r.Method + "\n" + r.URL.EscapedPath() + "\n" + r.URL.RawQuery + "\n"
	for _, header := range signed {
		value := strings.Join(r.Header.Values(header), ",")
		if header == "host" {
			value = r.Host
		}
		canonical += header + ":" + strings.TrimSpace(value) + "\n"
	}
	canonical += "\n" + parts[5] + "\n" + fmt.Sprintf("%x", sha256.Sum256(body))
	text := fmt.Sprintf("AWS4-HMAC-SHA256\n%s\n%s/%s/%s/aws4_request\n%x", date, day, region, service, sha256.Sum256([]byte(canonical)))
	key := []byte("AWS4" + k.secret)
	for _, part := range []string{day, region, service, "aws4_request", text} {
		h := hmac.New(sha256.New, key)
		_, _ = h.Write([]byte(part))
		key = h.Sum(nil)
	}
	if hex.EncodeToString(key) != signature {
		return fmt.Errorf("got the signature %s, want %x", signature, key)
	}
	return nil
}
