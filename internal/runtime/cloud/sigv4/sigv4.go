// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package sigv4 signs requests to AWS with Signature Version 4
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html).
//
// It signs what this module sends: requests with a plain path, without a query, with a body in memory.
package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
)

// Keys are the keys of a principal of AWS.
type Keys struct {
	ID     string
	Secret secret.Text
	// Token comes with keys that are temporary. Empty: they are permanent.
	Token secret.Text
}

const (
	algorithm  = "AWS4-HMAC-SHA256"
	timeFormat = "20060102T150405Z"
	dayFormat  = "20060102"
)

// Sign adds the date, the token and the signature to a request. The signature covers the host, the
// content type, the body and every header that begins with x-amz-. It counts for one service in one
// region, for a few minutes after now.
func (k Keys) Sign(req *http.Request, body []byte, region, service string, now time.Time) {
	now = now.UTC()
	req.Header.Set("X-Amz-Date", now.Format(timeFormat))
	if k.Token != "" {
		req.Header.Set("X-Amz-Security-Token", k.Token.Reveal())
	}
	signed := map[string]string{"host": req.URL.Host}
	if req.Host != "" {
		signed["host"] = req.Host
	}
	for name, values := range req.Header {
		if name = strings.ToLower(name); name == "content-type" || strings.HasPrefix(name, "x-amz-") {
			signed[name] = strings.TrimSpace(strings.Join(values, ","))
		}
	}
	names := slices.Sorted(maps.Keys(signed))
	var headers strings.Builder
	for _, name := range names {
		headers.WriteString(name + ":" + signed[name] + "\n")
	}
	path := req.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	list := strings.Join(names, ";")
	request := strings.Join([]string{req.Method, path, "", headers.String(), list, hexOf(body)}, "\n")

	scope := strings.Join([]string{now.Format(dayFormat), region, service, "aws4_request"}, "/")
	text := strings.Join([]string{algorithm, now.Format(timeFormat), scope, hexOf([]byte(request))}, "\n")
	key := []byte("AWS4" + k.Secret.Reveal())
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	req.Header.Set("Authorization", algorithm+" Credential="+k.ID+"/"+scope+", SignedHeaders="+list+
		", Signature="+hex.EncodeToString(mac(key, text)))
}

func hexOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
