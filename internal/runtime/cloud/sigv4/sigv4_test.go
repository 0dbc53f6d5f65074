// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sigv4_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/cloud/sigv4"
)

// TestPublishedVectors signs requests of AWS's own test suite for Signature Version 4 that have a plain
// path and no query, and compares with the signatures that the suite has for them.
func TestPublishedVectors(t *testing.T) {
	t.Parallel()
	const (
		region, service = "us-east-1", "service"
		scope           = "AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
		session         = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7m" +
			"SEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT3" +
			"8xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="
	)
	at := time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		method, contentType, body string
		token                     secret.Text
		headers, signature        string
	}{
		"get-vanilla": {
			method: http.MethodGet, headers: "host;x-amz-date", signature: "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
		},
		"post-vanilla": {
			method: http.MethodPost, headers: "host;x-amz-date", signature: "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
		},
		"post-x-www-form-urlencoded": {
			method: http.MethodPost, contentType: "application/x-www-form-urlencoded", body: "Param1=value1",
			headers: "content-type;host;x-amz-date", signature: "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
		},
		"post-sts-header-before": {
			method: http.MethodPost, token: session,
			headers: "host;x-amz-date;x-amz-security-token", signature: "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
		},
	} {
		req, err := http.NewRequestWithContext(t.Context(), test.method, "https://example.amazonaws.com/", strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		if test.contentType != "" {
			req.Header.Set("Content-Type", test.contentType)
		}
		keys := sigv4.Keys{ID: "AKIDEXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", Token: test.token}
		keys.Sign(req, []byte(test.body), region, service, at)
		want := "AWS4-HMAC-SHA256 Credential=" + scope + ", SignedHeaders=" + test.headers + ", Signature=" + test.signature
		if got := req.Header.Get("Authorization"); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
