// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpcerr_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

func write(method string, err error) *http.Response {
	recorder := httptest.NewRecorder()
	recorder.Header().Set("ETag", `"of the content"`)
	rpcerr.WriteHTTP(recorder, httptest.NewRequest(method, "/", nil), err)
	return recorder.Result()
}

func TestHTTPRoundTrip(t *testing.T) {
	t.Parallel()
	statuses := map[connect.Code]int{
		connect.CodeCanceled: 499, connect.CodeUnknown: 500, connect.CodeInvalidArgument: 400, connect.CodeDeadlineExceeded: 504,
		connect.CodeNotFound: 404, connect.CodeAlreadyExists: 409, connect.CodePermissionDenied: 403,
		connect.CodeResourceExhausted: 429, connect.CodeFailedPrecondition: 409, connect.CodeAborted: 409,
		connect.CodeOutOfRange: 416, connect.CodeUnimplemented: 501, connect.CodeInternal: 500, connect.CodeUnavailable: 503,
		connect.CodeDataLoss: 500, connect.CodeUnauthenticated: 401,
	}
	for code, status := range statuses {
		want := rpcerr.New(code, errorsv1.Reason_REASON_BUNDLE_NOT_FOUND, "no such bundle",
			rpcerr.With("digest", "sha256:00"), rpcerr.RetryAfter(1200*time.Millisecond))
		response := write(http.MethodGet, want)
		if response.StatusCode != status {
			t.Errorf("%s: got status %d, want %d", code, response.StatusCode, status)
		}
		got := rpcerr.FromHTTP(response)
		if connect.CodeOf(got) != code || rpcerr.ReasonOf(got) != errorsv1.Reason_REASON_BUNDLE_NOT_FOUND ||
			rpcerr.Message(got) != "no such bundle" {
			t.Errorf("%s: got %v with %s, want the same error back", code, got, rpcerr.ReasonOf(got))
		}
		if diff := cmp.Diff(map[string]string{"digest": "sha256:00"}, rpcerr.Metadata(got)); diff != "" {
			t.Errorf("%s: metadata (-want +got):\n%s", code, diff)
		}
		if delay, _ := rpcerr.RetryDelay(got); delay != 2*time.Second {
			t.Errorf("%s: got delay %s, want it rounded up to 2s", code, delay)
		}
	}
}

func TestWriteHTTPHeaders(t *testing.T) {
	t.Parallel()
	response := write(http.MethodHead, rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID, "no"))
	body, _ := io.ReadAll(response.Body)
	if len(body) != 0 {
		t.Errorf("HEAD: got body %q, want none", body)
	}
	for key, want := range map[string]string{
		"ETag": "", "Cache-Control": "no-store", "WWW-Authenticate": `Bearer realm="leat"`, "Content-Type": "application/json",
	} {
		if got := response.Header.Get(key); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}

func TestWriteHTTPHidesUnmappedErrors(t *testing.T) {
	t.Parallel()
	response := write(http.MethodGet, errors.New(leak))
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusInternalServerError || strings.Contains(string(body), "10.1.2.3") {
		t.Errorf("got %d %s, want 500 without the cause", response.StatusCode, body)
	}
}

func TestFromHTTPOfOthers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		status int
		body   string
		code   connect.Code
		reason errorsv1.Reason
	}{
		{400, "", connect.CodeInvalidArgument, errorsv1.Reason_REASON_FIELD_INVALID},
		{401, "<html>", connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID},
		{403, "{}", connect.CodePermissionDenied, errorsv1.Reason_REASON_ACCESS_DENIED},
		{404, "404 page not found", connect.CodeNotFound, errorsv1.Reason_REASON_INTERNAL},
		{409, "", connect.CodeAborted, errorsv1.Reason_REASON_INTERNAL},
		{413, "", connect.CodeResourceExhausted, errorsv1.Reason_REASON_MESSAGE_TOO_LARGE},
		{416, "", connect.CodeOutOfRange, errorsv1.Reason_REASON_INTERNAL},
		{418, "", connect.CodeUnknown, errorsv1.Reason_REASON_INTERNAL},
		{429, "", connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED},
		{501, "", connect.CodeUnimplemented, errorsv1.Reason_REASON_UNIMPLEMENTED},
		{502, "Bad Gateway", connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE},
		{503, strings.Repeat("x", 1<<20), connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE},
		{504, "", connect.CodeDeadlineExceeded, errorsv1.Reason_REASON_DEADLINE_EXCEEDED},
		{503, `{"code":"new","reason":"SHUTTING_DOWN","message":"bye"}`, connect.CodeUnavailable, errorsv1.Reason_REASON_SHUTTING_DOWN},
	}
	for _, tt := range tests {
		response := &http.Response{StatusCode: tt.status, Header: http.Header{"Retry-After": {"3"}}, Body: io.NopCloser(strings.NewReader(tt.body))}
		err := rpcerr.FromHTTP(response)
		if connect.CodeOf(err) != tt.code || rpcerr.ReasonOf(err) != tt.reason {
			t.Errorf("%d %.20q: got %v with %s, want %s with %s", tt.status, tt.body, err, rpcerr.ReasonOf(err), tt.code, tt.reason)
		}
		if !connect.IsWireError(err) {
			t.Errorf("%d: got an error of our own, want one from the wire", tt.status)
		}
		if delay, _ := rpcerr.RetryDelay(err); delay != 3*time.Second {
			t.Errorf("%d: got delay %s, want 3s", tt.status, delay)
		}
	}
	if err := rpcerr.FromHTTP(&http.Response{StatusCode: http.StatusNotModified}); err != nil {
		t.Errorf("304: got %v, want nil", err)
	}
}
