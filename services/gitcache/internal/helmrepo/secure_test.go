// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helmrepo_test

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/testkit/charttest"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
)

// damage turns a byte of every artifact of the mirror.
func (f *fixture) damage(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(f.dir, uid, "art-*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got artifacts %q (%v), want some", files, err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAuthentication uses TLS with an authority of its own, and each way to prove who asks.
func TestAuthentication(t *testing.T) {
	t.Parallel()
	client := selfsigned.New(t)
	repo := charttest.NewTLS(t, string(client.PEM))
	repo.SetBasicAuth("reader", "sesame")
	one := repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "one"))
	f := newFixture(t, repo.URL(), true)
	wantReason(t, f.tryFetch(t), reason.UpstreamUnreachable, "not trusted")
	f.def.CAPEM = repo.CertificatePEM()
	if err := f.tryFetch(t); err == nil {
		t.Fatal("got no error without a client certificate")
	}
	f.def.Credential.ClientCertPEM, f.def.Credential.ClientKeyPEM = string(client.PEM), secret.Text(client.KeyPEM)
	wantReason(t, f.tryFetch(t), reason.UpstreamAuthRejected, "asks for a credential")
	f.def.Credential.Method, f.def.Credential.Username, f.def.Credential.Password = upstream.MethodBasic, "reader", "wrong"
	wantReason(t, f.tryFetch(t), reason.UpstreamAuthRejected, "refused the credential")
	f.def.Credential.Password = "sesame"
	if err := f.def.Validate(); err != nil {
		t.Fatal(err)
	}
	f.fetch(t)
	f.fill(t, one)
	f.wantText(t, one, "one")

	repo.SetBasicAuth("", "")
	f.def.Credential.Method, f.def.Credential.Token = upstream.MethodBearer, "a-token"
	repo.ResetStats()
	f.fetch(t)
	if got := repo.Stats().Credentials; !slices.Equal(got, []string{"Bearer a-token"}) {
		t.Errorf("got %q, want the token", got)
	}
}

// TestSecChartCredentialStaysAtHome has the index and redirects lead to other hosts: archives come
// from there, without the credential, and never from https to http.
func TestSecChartCredentialStaysAtHome(t *testing.T) {
	t.Parallel()
	home, elsewhere := charttest.NewTLS(t, ""), charttest.NewTLS(t, "")
	home.SetBasicAuth("reader", "sesame")
	var ids []string
	for i, version := range []string{"1.0.0", "2.0.0", "3.0.0"} {
		files := charttest.Files("web", version, fmt.Sprint(i))
		ids = append(ids, home.Publish(t, "web", version, files))
		elsewhere.Publish(t, "web", version, files)
	}
	f := newFixture(t, home.URL(), false)
	f.def.CAPEM = home.CertificatePEM() + elsewhere.CertificatePEM()
	f.def.Credential = upstream.Credential{Method: upstream.MethodBasic, Username: "reader", Password: "sesame"}

	home.SetBase(elsewhere.URL() + "/deep")
	home.WriteIndex(t)
	f.fetch(t)
	f.fill(t, ids[0])
	f.wantText(t, ids[0], "0")
	if s := elsewhere.Stats(); s.Archives != 1 || len(s.Credentials) != 0 {
		t.Errorf("got %+v at the other host, want one request without a credential", s)
	}

	home.SetBase("")
	home.WriteIndex(t)
	home.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, ".tgz") {
			http.Redirect(w, r, elsewhere.URL()+r.URL.Path, http.StatusFound)
			return true
		}
		return false
	})
	f.fetch(t)
	f.fill(t, ids[1])
	if s := elsewhere.Stats(); s.Archives != 2 || len(s.Credentials) != 0 {
		t.Errorf("got %+v after a redirect, want no credential", s)
	}

	plain := charttest.New(t)
	plain.Publish(t, "web", "3.0.0", charttest.Files("web", "3.0.0", "2"))
	home.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, ".tgz") {
			http.Redirect(w, r, plain.URL()+r.URL.Path, http.StatusFound)
			return true
		}
		return false
	})
	wantReason(t, f.tryFill(t, ids[2]), reason.UpstreamProtocol, "from https to http")
	home.Intercept(nil)
	home.SetBase(plain.URL())
	home.WriteIndex(t)
	f.fetch(t)
	wantArtifact(t, f.tryFill(t, ids[2]), reason.ContentUnsupported, "not at https")
	if s := plain.Stats(); s.Archives != 0 {
		t.Errorf("got %+v over plain HTTP, want no request", s)
	}
	home.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
		return true
	})
	wantReason(t, f.tryFetch(t), reason.UpstreamProtocol, "redirects too often")
}

// TestSecIndexDoesNotReachThisMachine has an index name archives at services of this machine.
func TestSecIndexDoesNotReachThisMachine(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	internal := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(internal.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(internal.URL, "http://"), ":")
	repo := charttest.New(t)
	one := repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "one"))
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "0.0.0.0", "[::ffff:127.0.0.1]", "127.1.2.3"} {
		f := newFixture(t, repo.URL(), true)
		repo.SetBase("http://" + host + ":" + port)
		repo.WriteIndex(t)
		f.fetch(t)
		wantReason(t, f.tryFill(t, one), reason.UpstreamUnreachable, "administrator")
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("got %d requests at an internal service, want none", n)
	}
}

// TestSecHostileChartServers sends indexes and archives that are larger than they look.
func TestSecHostileChartServers(t *testing.T) {
	t.Parallel()
	repo := charttest.New(t)
	one := repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "one"))
	f := newFixture(t, repo.URL(), false)
	bomb := func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(w)
		zeros := make([]byte, 64<<10)
		for range 64 {
			_, _ = packed.Write(zeros)
		}
		_ = packed.Close()
		return true
	}
	repo.Intercept(bomb)
	wantReason(t, f.tryFetch(t), reason.UpstreamProtocol, "more than")
	repo.Intercept(func(w http.ResponseWriter, r *http.Request) bool { // compressed on the way, as it may be
		data, err := os.ReadFile(filepath.Join(repo.Dir(), "index.yaml"))
		if err != nil || r.Header.Get("Accept-Encoding") != "gzip" {
			return false
		}
		w.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(w)
		_, _ = packed.Write(data)
		_ = packed.Close()
		return true
	})
	f.fetch(t)
	f.wantRefs(t, map[string]string{"web/1.0.0": one})
	// A server that calls the archive itself gzip: its bytes stay as they are.
	repo.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Encoding", "gzip")
		return false
	})
	f.fill(t, one)
	f.wantText(t, one, "one")
	left, err := filepath.Glob(filepath.Join(f.temporary, "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("got %q (%v) left behind, want nothing", left, err)
	}
}
