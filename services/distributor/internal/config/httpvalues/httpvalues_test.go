// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package httpvalues_test

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/config/configstest"
	"github.com/leatdev/leat/services/distributor/internal/config/httpvalues"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const bearer = "bearer-of-the-test"

func open(t *testing.T, h catalog.HTTPBackend, credential string, guard dialguard.Guard) *httpvalues.Backend {
	t.Helper()
	b, err := httpvalues.Open(&catalog.ConfigBackend{Spec: catalog.ConfigBackendSpec{HTTP: &h, Credential: secret.Text(credential)}}, guard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

var local = dialguard.Guard{AllowLocal: true}

// server keeps entries at /config/PATH.
type server struct {
	*httptest.Server

	mu       sync.Mutex
	entries  map[string]map[string]string
	versions map[string]int
	denied   map[string]bool
	throttle time.Duration
	broken   bool
	hanging  chan struct{}
}

func start(t *testing.T) *server {
	t.Helper()
	s := &server{entries: map[string]map[string]string{}, versions: map[string]int{}, denied: map[string]bool{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	t.Cleanup(func() {
		if s.hanging != nil {
			close(s.hanging)
		}
	})
	return s
}

// do changes the server's state.
func (s *server) do(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hanging != nil {
		hanging := s.hanging
		s.mu.Unlock()
		select {
		case <-hanging:
		case <-r.Context().Done():
		}
		s.mu.Lock()
		return
	}
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/config/")
	fields, ok := s.entries[path]
	switch {
	case s.broken:
		w.WriteHeader(http.StatusBadGateway)
	case r.Method != http.MethodGet || r.Header.Get("Authorization") != "Bearer "+bearer:
		w.WriteHeader(http.StatusUnauthorized)
	case s.throttle > 0:
		w.Header().Set("Retry-After", strconv.Itoa(int(s.throttle/time.Second)))
		w.WriteHeader(http.StatusServiceUnavailable)
		s.throttle = 0
	case s.denied[path]:
		w.WriteHeader(http.StatusForbidden)
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	default:
		w.Header().Set("ETag", fmt.Sprintf(`W/"v%d"`, s.versions[path]))
		_ = json.NewEncoder(w).Encode(fields)
	}
}

// TestServer has a web server pass the suite.
func TestServer(t *testing.T) {
	t.Parallel()
	configstest.Run(t, func(t *testing.T) configstest.Place {
		s := start(t)
		return configstest.Place{
			Backend:     open(t, catalog.HTTPBackend{URL: s.URL + "/config", Auth: catalog.HTTPByBearer}, bearer, local),
			HasVersions: true, Path: func(name string) string { return "team/" + name },
			Put: func(_ *testing.T, path string, fields map[string]string) {
				s.do(func() { s.entries[path] = fields; s.versions[path]++ })
			},
			Remove:   func(_ *testing.T, path string) { s.do(func() { delete(s.entries, path) }) },
			Deny:     func(_ *testing.T, path string) { s.do(func() { s.denied[path] = true }) },
			Throttle: func(_ *testing.T, after time.Duration) { s.do(func() { s.throttle = after }) },
			Break: func(*testing.T) func() {
				s.do(func() { s.broken = true })
				return func() { s.do(func() { s.broken = false }) }
			},
			Hang: func(*testing.T) { s.do(func() { s.hanging = make(chan struct{}) }) },
		}
	})
}

// TestClientCertificate proves the hub by a certificate, and trusts the document's alone.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	own, hub := selfsigned.New(t), selfsigned.New(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) != 1 || string(r.TLS.PeerCertificates[0].Raw) != string(hub.Pair.Certificate[0]) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Cache-Control", "private, max-age=90")
		_, _ = io.WriteString(w, `{"a": "1", "b": {"c": 2}}`)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{own.Pair}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	with := catalog.HTTPBackend{URL: server.URL, CAPEM: string(own.PEM), Auth: catalog.HTTPByCertificate, CertificatePEM: string(hub.PEM)}
	entry, err := open(t, with, string(hub.KeyPEM), local).Read(t.Context(), "app")
	if err != nil || entry.Fields["a"].Reveal() != "1" || entry.Fields["b"].Reveal() != `{"c": 2}` || entry.TTL != 90*time.Second || entry.Version != "" {
		t.Errorf("got %d fields for %v and %v", len(entry.Fields), entry.TTL, err)
	}
	_, err = open(t, catalog.HTTPBackend{URL: server.URL, CAPEM: string(own.PEM)}, "", local).Read(t.Context(), "app")
	if _, isDenied := errors.AsType[*configs.DeniedError](err); err == nil || isDenied || !strings.Contains(err.Error(), "401") {
		t.Errorf("without a certificate: got %v, want that the server does not accept it", err)
	}
	with.CAPEM = ""
	if _, err := open(t, with, string(hub.KeyPEM), local).Read(t.Context(), "app"); err == nil {
		t.Error("the hub trusts a certificate of nobody")
	}
}

// TestSecHostileAnswersAreBounded has a server send without end, too much, too deep, slowly, and
// elsewhere.
func TestSecHostileAnswersAreBounded(t *testing.T) {
	t.Parallel()
	var visits atomic.Int32
	metadata := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
	t.Cleanup(metadata.Close)
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := io.WriteString(w, strings.Repeat(configstest.Canary, 1000)); err != nil {
					return
				}
			}
		},
		"deep": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat(`{"a":`, 1_000_000))
		},
		"many keys": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "{")
			for i := range configs.MaxFields + 1 {
				_, _ = fmt.Fprintf(w, `"k%d": 1,`, i)
			}
			_, _ = io.WriteString(w, `"last": 1}`)
		},
		"huge header": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Large", strings.Repeat("x", 1<<20))
			_, _ = io.WriteString(w, `{"a": "1"}`)
		},
		"many headers": func(w http.ResponseWriter, _ *http.Request) {
			for i := range 20_000 {
				w.Header().Set("X-"+strconv.Itoa(i), "x")
			}
			_, _ = io.WriteString(w, `{"a": "1"}`)
		},
		"a list":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `["`+configstest.Canary+`"]`) },
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, metadata.URL+"/latest/meta-data", http.StatusFound)
		},
		"compressed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte{0x1f, 0x8b, 8, 0})
		},
	} {
		server := httptest.NewServer(http.HandlerFunc(answer))
		b := open(t, catalog.HTTPBackend{URL: server.URL}, "", local)
		if _, err := b.Read(t.Context(), "app"); err == nil || strings.Contains(err.Error(), configstest.Canary) {
			t.Errorf("%s: got %v, want an error without the answer", name, err)
		}
		server.CloseClientConnections()
		server.Close()
	}
	if visits.Load() != 0 {
		t.Errorf("the hub followed a redirect %d times", visits.Load())
	}
}

// TestSecSlowAnswersEnd has a server send a byte at a time for as long as the client listens. The
// hub ends that within the time of one read.
func TestSecSlowAnswersEnd(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/app" {
			http.NotFound(w, r) // a call meant for the program that had the port before
			return
		}
		defer close(ended)
		w.Header().Set("Content-Length", "1000000")
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			_, err := io.WriteString(w, " ")
			if err = cmp.Or(err, http.NewResponseController(w).Flush()); err != nil {
				return
			}
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	}))
	defer server.Close()
	b := open(t, catalog.HTTPBackend{URL: server.URL}, "", local)
	if _, err := b.Read(t.Context(), "app"); err == nil || !strings.Contains(err.Error(), "took too long") {
		t.Errorf("got %v, want that the answer took too long", err)
	}
	await.Closed(t, "the hub to end the connection", ended)
}

// TestSecServerAtTheHubsOwnMachine is not dialled unless the hub allows it, by whatever name.
func TestSecServerAtTheHubsOwnMachine(t *testing.T) {
	t.Parallel()
	s := start(t)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]", "169.254.169.254", "[fd00:ec2::254]"} {
		b := open(t, catalog.HTTPBackend{URL: "http://" + host + ":" + port}, "", dialguard.Guard{})
		if _, err := b.Read(t.Context(), "app"); !errors.Is(err, dialguard.ErrLocal) {
			t.Errorf("%s: got %v, want %v", host, err, dialguard.ErrLocal)
		}
	}
}

// TestVersions shows what becomes of entity tags.
func TestVersions(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]string{`"abc"`: "abc", `W/"abc"`: "abc", "": "", `"` + strings.Repeat("x", 1000) + `"`: "hash", "\"a b\"": "hash"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", tag)
			_, _ = io.WriteString(w, `{"a": "1"}`)
		}))
		entry, err := open(t, catalog.HTTPBackend{URL: server.URL}, "", local).Read(t.Context(), "app")
		server.Close()
		if err != nil || entry.Check() != nil || want != "hash" && entry.Version != want || want == "hash" && len(entry.Version) != 64 {
			t.Errorf("%.20q: got %q and %v, want %s", tag, entry.Version, err, want)
		}
	}
}
