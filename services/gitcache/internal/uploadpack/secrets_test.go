// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/lease/leasemem"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

// text is a place where words are left, by anybody at any time.
type text struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *text) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *text) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// records keeps whole requests, and answers 401.
func (s *text) records(w http.ResponseWriter, r *http.Request) {
	dump, _ := httputil.DumpRequest(r, true)
	_, _ = s.Write(dump)
	if r.TLS != nil {
		for _, c := range r.TLS.PeerCertificates {
			_, _ = s.Write([]byte(certificatePEM(c)))
		}
	}
	w.WriteHeader(http.StatusUnauthorized)
}

// journal is an event log that shows when a repository has been fetched, successfully or not.
type journal struct {
	text
	fetched chan mirror.State
}

func (j *journal) Append(_ context.Context, e mirror.Event) error {
	if err := json.NewEncoder(j).Encode(e); err != nil {
		return err
	}
	if e.State.Fetches > 0 {
		select {
		case j.fetched <- e.State:
		default:
		}
	}
	return nil
}

func (j *journal) States(context.Context) ([]mirror.Event, string, error) { return nil, "", nil }
func (j *journal) Read(context.Context, string) ([]mirror.Logged, error)  { return nil, nil }
func (j *journal) Probe(context.Context, string) error                    { return nil }
func (j *journal) Members() []string                                      { return []string{"http://self"} }

// secretKinds are all credentials, and of each the words that must not be seen.
func secretKinds(t *testing.T, apiURL string, pair upstream.Credential) map[string]struct {
	credential upstream.Credential
	secrets    []string
} {
	t.Helper()
	_, key := rsaPEM(t)
	type kind = struct {
		credential upstream.Credential
		secrets    []string
	}
	encoded := func(user, password string) string {
		return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	}
	return map[string]kind{
		"basic": {
			upstream.Credential{Method: upstream.MethodBasic, Username: "leat", Password: "canary-password"},
			[]string{"canary-password", encoded("leat", "canary-password")},
		},
		"bearer": {upstream.Credential{Method: upstream.MethodBearer, Token: "canary-token"}, []string{"canary-token"}},
		"github app": {
			upstream.Credential{Method: upstream.MethodGitHubApp, AppID: 7, InstallationID: 42, PrivateKey: key, APIURL: apiURL},
			[]string{line(key.Reveal()), installationToken, encoded("x-access-token", installationToken)},
		},
		"client certificate": {pair, []string{line(pair.ClientKeyPEM.Reveal()), line(pair.ClientCertPEM)}},
	}
}

const installationToken = "canary-installation-token"

// line is a line of a PEM text, which stands for the whole.
func line(pem string) string { return strings.Split(pem, "\n")[3] }

// TestSecretsStayWhereTheyBelong sends every kind of credential into every trap, with the log at
// its most talkative, and looks for the secrets in all that is said or sent to anybody but the
// origin over TLS.
func TestSecretsStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"token": installationToken, "expires_at": time.Now().Add(time.Hour)})
	}))
	t.Cleanup(api.Close)
	pair := clientPair(t)
	for name, kind := range secretKinds(t, api.URL, pair) {
		for trap, set := range map[string]func(t *testing.T, sent *text) (origin *httptest.Server){
			"plain http":           plainOrigin,
			"redirect to a host":   func(t *testing.T, sent *text) *httptest.Server { return redirecting(t, sent, true) },
			"redirect to a scheme": func(t *testing.T, sent *text) *httptest.Server { return redirecting(t, sent, false) },
			"refused":              func(t *testing.T, _ *text) *httptest.Server { return refusing(t) },
		} {
			t.Run(name+"/"+trap, func(t *testing.T) {
				t.Parallel()
				var sent text
				origin := set(t, &sent)
				def := mirror.Definition{Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: origin.URL + "/demo", Credential: kind.credential}}
				def.CAPEM = certificatePEM(api.Certificate())
				if origin.TLS != nil { // all of httptest's servers have one certificate
					def.CAPEM = certificatePEM(origin.Certificate())
				}
				said := runOnce(t, def)
				for _, secret := range kind.secrets {
					if strings.Contains(sent.String(), secret) {
						t.Errorf("got %q sent:\n%s", secret, sent.String())
					}
					if strings.Contains(said, secret) && !strings.Contains(kind.credential.ClientCertPEM, secret) { // no secret among ourselves
						t.Errorf("got %q said:\n%s", secret, said)
					}
				}
			})
		}
	}
}

// TestSSHSecretsAreNotSaid has a key with passphrase refused, and a proxy with a password that
// leads nowhere.
func TestSSHSecretsAreNotSaid(t *testing.T) {
	t.Parallel()
	server, stranger := gittest.New(t), gittest.New(t)
	repo := server.Repo(t, "demo")
	key := stranger.SSHPrivateKey()
	def := sshDefinition(server, repo)
	def.Credential.PrivateKey, def.Credential.Passphrase = secret.Text(key), "canary-passphrase"
	proxied := sshDefinition(server, repo)
	proxied.ProxyURL = "http://porter:canary-proxy@127.0.0.1:1"
	web := mirror.Definition{Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: repo.URL(), ProxyURL: proxied.ProxyURL}}
	odd := mirror.Definition{Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: repo.URL(), ProxyURL: "http://porter:canary-proxy@%zz"}}
	for _, d := range []mirror.Definition{def, proxied, web, odd} {
		said := runOnce(t, d)
		for _, secret := range []string{"canary", strings.Split(string(key), "\n")[2]} {
			if strings.Contains(said, secret) {
				t.Errorf("got %q said:\n%s", secret, said)
			}
		}
	}
}

func plainOrigin(t *testing.T, sent *text) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(sent.records))
	t.Cleanup(server.Close)
	return server
}

// redirecting sends the listing elsewhere: to another host over TLS, or to a plain one.
func redirecting(t *testing.T, sent *text, secure bool) *httptest.Server {
	t.Helper()
	elsewhere := httptest.NewUnstartedServer(http.HandlerFunc(sent.records))
	if secure {
		elsewhere.TLS = requestCertificate()
		elsewhere.StartTLS()
	} else {
		elsewhere.Start()
	}
	t.Cleanup(elsewhere.Close)
	origin := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.RequestURI(), http.StatusFound)
	}))
	origin.TLS = requestCertificate()
	origin.StartTLS()
	t.Cleanup(origin.Close)
	return origin
}

// refusing repeats in its refusal all that it was sent: a debug page of an upstream, say.
func refusing(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dump, _ := httputil.DumpRequest(r, true)
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write(dump)
	}))
	t.Cleanup(server.Close)
	return server
}

// runOnce lets a repository be fetched once by all that fetches in production, and returns all that
// was said about it.
func runOnce(t *testing.T, def mirror.Definition) string {
	t.Helper()
	var log text
	f := newFixture(t, "")
	f.logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	f.reopen(t)
	spans := tracetest.NewSpanRecorder()
	events := &journal{fetched: make(chan mirror.State, 1)}
	set, err := mirroring.NewSet(mirroring.Deps{
		Backend: f, Events: events, Leases: leasemem.New(), Peers: events, Self: "http://self",
		Logger: f.logger, Tracer: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test"),
		Meter: metricnoop.NewMeterProvider().Meter("test"),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	set.Apply([]mirror.Definition{def})
	go func() { done <- set.Run(ctx) }()
	state := <-events.fetched
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if state.Problem == nil {
		t.Errorf("got %+v, want a failure", state)
	}
	f.def = def
	direct := f.try(t.Context())
	var said strings.Builder
	fmt.Fprintf(&said, "%s\n%s\n%+v\n%#v\n%v\n%+v\n%v\n", log.String(), events.String(), state, def, direct, direct, f.Check(def))
	for _, span := range spans.Ended() {
		fmt.Fprintf(&said, "%s %v %v %v\n", span.Name(), span.Attributes(), span.Events(), span.Status())
	}
	if len(spans.Ended()) == 0 || !strings.Contains(log.String(), "fetch did not succeed") {
		t.Error("nothing was traced or logged: this test looks at nothing")
	}
	return said.String()
}

// requestCertificate asks for a client certificate and takes any, or none.
func requestCertificate() *tls.Config { return &tls.Config{ClientAuth: tls.RequestClientCert} }
