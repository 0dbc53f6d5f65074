// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/rpctest"
	"github.com/leatdev/leat/services/agent/internal/uplink"
)

// handler passes requests to an API server that reports the request it received.
func handler(t *testing.T, transport http.RoundTripper) http.Handler {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Accept-Encoding")
		_ = json.NewEncoder(w).Encode(map[string]any{"uri": r.RequestURI, "header": r.Header})
	}))
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL + "/k8s/clusters/c-1")
	if err != nil {
		t.Fatal(err)
	}
	return newHandler(t, uplink.HandlerParams{APIServer: base, Transport: transport})
}

// newHandler adds the parameters that a test does not set.
func newHandler(t *testing.T, p uplink.HandlerParams) http.Handler {
	t.Helper()
	p.Agent, p.Logger = http.NotFoundHandler(), slog.New(slog.DiscardHandler)
	h, err := uplink.NewHandler(p)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestRewrite(t *testing.T) {
	t.Parallel()
	request := httptest.NewRequest(http.MethodGet, "/kubernetes/api/v1/namespaces/a%2Fb/pods?x=1&x=2;3", nil)
	for name, value := range map[string]string{
		"Impersonate-User": "alice", "Impersonate-Group": "leat:g", "Impersonate-Uid": "u", "Impersonate-Extra-Leat.dev%2fcluster": "s",
		"Impersonate-Future": "f", "Authorization": "Bearer x", "Cookie": "a=b", "Leat-Subject": "user:alice",
		"X-Remote-User": "root", "Accept": "application/json",
	} {
		request.Header.Set(name, value)
	}
	recorder := httptest.NewRecorder()
	handler(t, http.DefaultTransport).ServeHTTP(recorder, request)
	var got struct {
		URI    string
		Header http.Header
	}
	if err := json.NewDecoder(recorder.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if want := "/k8s/clusters/c-1/api/v1/namespaces/a%2Fb/pods?x=1&x=2;3"; got.URI != want {
		t.Errorf("URI: got %s, want %s", got.URI, want)
	}
	want := http.Header{
		"Impersonate-User": {"alice"}, "Impersonate-Group": {"leat:g"}, "Impersonate-Uid": {"u"}, "Impersonate-Extra-Leat.dev%2fcluster": {"s"},
		"Accept": {"application/json"},
	}
	if diff := cmp.Diff(want, got.Header); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
}

// TestEarlyAnswer has an API server that rejects an upload before it is complete, and a caller that
// waits for the answer.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Leat-Error-Origin", "forged")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, "too large")
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	upload, pending := io.Pipe()
	defer pending.Close()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/kubernetes/api", upload)
	request.Header.Set("Impersonate-User", "alice")
	recorder := httptest.NewRecorder()
	newHandler(t, uplink.HandlerParams{APIServer: base, Transport: server.Client().Transport}).ServeHTTP(recorder, request) // hangs if it is wrong
	if recorder.Code != http.StatusRequestEntityTooLarge || recorder.Body.String() != "too large" {
		t.Errorf("got %d %s, want the early answer", recorder.Code, recorder.Body)
	}
	if got := recorder.Header().Get("Leat-Error-Origin"); got != "" {
		t.Errorf("origin: got %q, want none: the API server does not speak as the agent", got)
	}
}

type broken struct{}

func (broken) RoundTrip(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		header http.Header
		code   int
		reason string
	}{
		"nobody to impersonate": {http.Header{}, http.StatusForbidden, "Forbidden"},
		"upgrade":               {http.Header{"Impersonate-User": {"a"}, "Upgrade": {"websocket"}}, http.StatusBadRequest, "FIELD_INVALID"},
		"no API server":         {http.Header{"Impersonate-User": {"a"}}, http.StatusBadGateway, "CLUSTER_UNREACHABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := httptest.NewRequest(http.MethodGet, "/kubernetes/api", nil)
			request.Header = test.header
			recorder := httptest.NewRecorder()
			handler(t, broken{}).ServeHTTP(recorder, request)
			body := recorder.Body.String()
			if recorder.Code != test.code || !strings.Contains(body, `"kind":"Status"`) || !strings.Contains(body, test.reason) {
				t.Errorf("got %d %s, want %d and a Status with reason %s", recorder.Code, body, test.code, test.reason)
			}
			if got := recorder.Header().Get("Leat-Error-Origin"); got != "agent" {
				t.Errorf("origin: got %q, want agent", got)
			}
		})
	}
}

// TestServerThatDoesNotAnswer ends requests that the API server has received completely, with and
// without a body, and does not end uploads.
func TestServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	const answerTimeout = 2 * time.Second
	none := func(*testing.T) io.Reader { return nil }
	for _, tt := range []struct {
		name, method string
		body         func(*testing.T) io.Reader
		status       int
		after        time.Duration
	}{
		{"get", http.MethodGet, none, http.StatusGatewayTimeout, answerTimeout},
		{"delete", http.MethodDelete, none, http.StatusGatewayTimeout, answerTimeout},
		{"body", http.MethodPost, func(*testing.T) io.Reader { return strings.NewReader("short") }, http.StatusGatewayTimeout, answerTimeout},
		{
			"body of unknown length", http.MethodPost, func(*testing.T) io.Reader { return io.MultiReader(strings.NewReader("short")) },
			http.StatusGatewayTimeout, answerTimeout,
		},
		{
			"upload that takes its time", http.MethodPost, func(t *testing.T) io.Reader { return slow(t, 2000, time.Hour) },
			http.StatusOK, time.Hour,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := rpctest.Start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if n, err := io.Copy(io.Discard, r.Body); n < 2000 || err != nil {
						<-r.Context().Done() // and is silent
					}
				}))
				defer api.Close()
				base, err := url.Parse(rpctest.BaseURL)
				if err != nil {
					t.Fatal(err)
				}
				hub := rpctest.Start(newHandler(t, uplink.HandlerParams{
					APIServer: base, Transport: api.Transport(), AnswerTimeout: answerTimeout, Logger: slog.New(slog.DiscardHandler),
				}))
				defer hub.Close()
				began := time.Now()
				res, err := hub.Client().Do(as(t, t.Context(), "alice", tt.method, rpctest.BaseURL+"/kubernetes/api/v1/namespaces/a/pods/b", tt.body(t)))
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				text, err := io.ReadAll(res.Body)
				if err != nil || res.StatusCode != tt.status {
					t.Errorf("got %s %q, %v, want status %d", res.Status, text, err, tt.status)
				}
				if tt.status != http.StatusOK && !strings.Contains(string(text), "DEADLINE_EXCEEDED") {
					t.Errorf("got %q, want a Status that says why", text)
				}
				if took := time.Since(began); took != tt.after {
					t.Errorf("got the answer after %v, want %v", took, tt.after)
				}
			})
		})
	}
}

// slow is a body that arrives after a delay.
func slow(t *testing.T, size int, after time.Duration) io.Reader {
	t.Helper()
	reader, writer := io.Pipe()
	timer := time.AfterFunc(after, func() {
		_, err := writer.Write(make([]byte, size))
		_ = writer.CloseWithError(err)
	})
	t.Cleanup(func() { timer.Stop() })
	return reader
}
