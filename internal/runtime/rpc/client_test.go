// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/runtime/telemetry"
)

// echoServer answers with the protocol and the Authorization of each request, and redirects /away.
func echoServer(t *testing.T, secure bool) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "/", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, r.Proto+" "+r.Header.Get("Authorization"))
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetHTTP2(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	if secure {
		server.EnableHTTP2 = true
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server
}

func newClient(t *testing.T, params rpc.ClientParams) rpc.Client {
	t.Helper()
	params.Telemetry = telemetry.Noop()
	client, err := rpc.NewClient(params)
	if err != nil {
		t.Fatalf("new client: %v", err)
	}
	t.Cleanup(client.HTTP.CloseIdleConnections)
	return client
}

func get(t *testing.T, client rpc.Client, url string, header http.Header) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatalf("make request: %v", err)
	}
	maps.Copy(request.Header, header)
	response, err := client.HTTP.Do(request)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return response.StatusCode, string(body)
}

func TestClientSpeaksHTTP2(t *testing.T) {
	t.Parallel()
	plain, secure := echoServer(t, false), echoServer(t, true)
	roots := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	for _, params := range []rpc.ClientParams{{BaseURL: plain.URL}, {BaseURL: secure.URL + "/", CAPEM: roots}} {
		client := newClient(t, params)
		if _, got := get(t, client, client.BaseURL+"/", nil); got != "HTTP/2.0 " {
			t.Errorf("%s: got %q, want HTTP/2 without a token", params.BaseURL, got)
		}
	}
}

func TestClientTrustsOnlyWhatItIsTold(t *testing.T) {
	t.Parallel()
	secure := echoServer(t, true)
	client := newClient(t, rpc.ClientParams{BaseURL: secure.URL})
	_, err := gitcachev1connect.NewGitCacheServiceClient(client.HTTP, client.BaseURL, client.Options...).
		GetRepository(t.Context(), &gitcachev1.GetRepositoryRequest{})
	if _, refused := errors.AsType[*tls.CertificateVerificationError](err); !refused {
		t.Errorf("got %v, want the certificate refused", err)
	}
}

func TestTokenGoesToItsOwnHostOnly(t *testing.T) {
	t.Parallel()
	own, other := echoServer(t, false), echoServer(t, false)
	client := newClient(t, rpc.ClientParams{BaseURL: own.URL, Tokens: identity.StaticToken("abc")})
	if _, got := get(t, client, own.URL, nil); got != "HTTP/2.0 Bearer abc" {
		t.Errorf("own host: got %q, want the token", got)
	}
	if _, got := get(t, client, own.URL, http.Header{"Authorization": {"Bearer mine"}}); got != "HTTP/2.0 Bearer mine" {
		t.Errorf("own Authorization: got %q, want it kept", got)
	}
	if _, got := get(t, client, other.URL, nil); got != "HTTP/2.0 " {
		t.Errorf("other host: got %q, want no token", got)
	}
	if status, _ := get(t, client, own.URL+"/away", nil); status != http.StatusFound {
		t.Errorf("redirect: got %d, want it handed to the caller", status)
	}
}

// brokenTokens is a source that fails.
type brokenTokens struct{ err error }

func (b brokenTokens) Token(context.Context) (string, error) { return "", b.err }

func TestFailingTokenSource(t *testing.T) {
	t.Parallel()
	typed := rpcerr.New(connect.CodePermissionDenied, errorsv1.Reason_REASON_CLUSTER_KEY_REJECTED, "enrol again")
	for want, cause := range map[errorsv1.Reason]error{
		errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE: errors.New("no token"),
		errorsv1.Reason_REASON_CLUSTER_KEY_REJECTED:   typed,
	} {
		stack := started(t, both(func(context.Context) error { return nil }))
		client := newClient(t, rpc.ClientParams{BaseURL: "http://leat.test", Tokens: brokenTokens{cause}, Transport: stack.server.Transport()})
		generated := gitcachev1connect.NewGitCacheServiceClient(client.HTTP, client.BaseURL, client.Options...)
		for shape, call := range calls() {
			err := call(t.Context(), generated)
			if got := rpcerr.ReasonOf(err); got != want || !strings.Contains(err.Error(), "obtain token") && want == errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE {
				t.Errorf("%s: got %v with %s, want %s", shape, err, got, want)
			}
		}
	}
}

func TestUnreachableServerIsUnavailable(t *testing.T) {
	t.Parallel()
	client := newClient(t, rpc.ClientParams{BaseURL: "http://127.0.0.1:1"})
	err := unary(t.Context(), gitcachev1connect.NewGitCacheServiceClient(client.HTTP, client.BaseURL, client.Options...))
	if connect.CodeOf(err) != connect.CodeUnavailable || rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE {
		t.Errorf("got %v with %s, want unavailable", err, rpcerr.ReasonOf(err))
	}
}

func TestNewClientRefusesBadParams(t *testing.T) {
	t.Parallel()
	for name, params := range map[string]rpc.ClientParams{
		"no URL":       {},
		"no scheme":    {BaseURL: "hub.example:8080"},
		"other scheme": {BaseURL: "ftp://hub.example"},
		"no host":      {BaseURL: "https:///x"},
		"password":     {BaseURL: "https://ada:hunter2@hub.example"},
		"control byte": {BaseURL: "http://\x7f"},
		"CA not PEM":   {BaseURL: "https://hub.example", CAPEM: []byte("x")},
	} {
		params.Telemetry = telemetry.Noop()
		if _, err := rpc.NewClient(params); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want an error without secrets", name, err)
		}
	}
}
