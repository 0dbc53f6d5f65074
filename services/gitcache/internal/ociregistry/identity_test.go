// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/internal/testkit/cloudtest"
	"github.com/leatdev/leat/internal/testkit/registrytest"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/cloudlogin"
	"github.com/leatdev/leat/services/gitcache/internal/hostgate"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/ociregistry"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

// prefixes are the prefixes of an operator's file of credentials.
type prefixes map[string]mirror.SharedCredential

// For implements uploadpack.Credentials.
func (p prefixes) For(url string) (mirror.SharedCredential, bool) {
	for prefix, shared := range p {
		if strings.HasPrefix(url, prefix) {
			return shared, true
		}
	}
	return mirror.SharedCredential{}, false
}

// newIdentitySubject returns a subject with the logins of a pod that each of the clouds knows, and with
// an operator's file of credentials.
func newIdentitySubject(t *testing.T, clouds *cloudtest.Clouds, def upstream.Definition, shared prefixes, registries ...string) *subject {
	t.Helper()
	s := newSubject(t, def)
	token := cloudtest.TokenFile(t)
	logins, err := cloudlogin.New(cloudlogin.Config{
		Registries: registries, AWSRegion: cloudtest.Region, ECRURL: clouds.URL + "/aws/ecr", Config: clouds.Environment(token),
	}, func() time.Time { return s.now })
	if err != nil {
		t.Fatal(err)
	}
	client := uploadpack.New(uploadpack.Config{
		Dir: t.TempDir(), Guard: dialguard.Guard{}, Hosts: hostgate.New(hostgate.Config{Requests: 100_000, Burst: 100_000}), Credentials: shared,
	})
	s.Upstream, err = ociregistry.New(ociregistry.Params{
		Carriers: client, Logins: logins, Mirrors: s.store, Limits: bundle.Limits{Bytes: 1 << 20, Files: 100, FileBytes: 1 << 19},
		Now: func() time.Time { return s.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWorkloadIdentity mirrors from a real registry over TLS that takes the password of each cloud. The
// exchanges are made once, and again when the registry refuses what they gave.
func TestWorkloadIdentity(t *testing.T) {
	t.Parallel()
	ends := time.Now().Add(time.Hour).Truncate(time.Second)
	for name, test := range map[string]struct {
		cloud          upstream.Cloud
		user, password string
		exchange       []string
	}{
		"AWS":    {upstream.CloudAWS, "AWS", cloudtest.ECRPassword, []string{"POST /aws/sts/", "POST /aws/ecr/"}},
		"Google": {upstream.CloudGCP, "oauth2accesstoken", cloudtest.GoogleToken, []string{"GET /computeMetadata/v1/instance/service-accounts/default/token"}},
		"Azure": {
			upstream.CloudAzure, "00000000-0000-0000-0000-000000000000", cloudtest.RefreshToken(ends),
			[]string{"POST /azure/" + cloudtest.Tenant + "/oauth2/v2.0/token", "POST /oauth2/exchange"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := registrytest.Start(t, registrytest.Config{Username: test.user, Password: test.password})
			digest := r.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0"))
			clouds := cloudtest.Start(t)
			var clock atomic.Int64
			clock.Store(ends.Add(-time.Hour).Unix())
			clouds.Now = func() time.Time { return time.Unix(clock.Load(), 0) }
			f := newFront(t, r.Addr, true)
			host := f.Listener.Addr().String()
			var refuses atomic.Bool
			f.fail(func(w http.ResponseWriter, r *http.Request) bool {
				switch {
				case r.URL.Path == "/oauth2/exchange":
					clouds.ServeExchange(w, r, "127.0.0.1")
				case refuses.Load():
					w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
					w.WriteHeader(http.StatusUnauthorized)
				default:
					return false
				}
				return true
			})
			shared := prefixes{"oci://" + host: {
				Credential: upstream.Credential{Method: upstream.MethodWorkloadIdentity, Cloud: test.cloud}, CAPEM: f.caPEM(), Prefix: "oci://" + host,
			}}
			s := newIdentitySubject(t, clouds, upstream.Definition{URL: f.url("team/web")}, shared, host)
			s.now = clouds.Now()
			if err := s.Check(s.def); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				s.fetch(t)
			}
			s.resolve(t, tag("1.0.0"))
			if got := s.files(t, artifact.ID{Digest: digest}); len(got) != 2 {
				t.Errorf("got %v", got)
			}
			if asked := clouds.Take(); !slices.Equal(asked, test.exchange) {
				t.Errorf("got the requests %v, want one exchange", asked)
			}
			refuses.Store(true)
			s.now = s.now.Add(15 * time.Minute)
			clock.Store(s.now.Unix())
			clouds.Live(45 * time.Minute)
			err := wantReason(t, s.try(t.Context()), reason.UpstreamAuthRejected)
			if cloudtest.IsSecret(err.Error()) {
				t.Errorf("got %v, want no secret in it", err)
			}
			refuses.Store(false)
			s.fetch(t)
			if asked := clouds.Take(); !slices.Equal(asked, test.exchange) {
				t.Errorf("got the requests %v after the registry had refused the login, want another exchange", asked)
			}
		})
	}
}

// TestSecIdentityLeavesForNobodyElse has documents try to get the login of gitcache's own identity sent
// to servers that they choose: another host, a server with certificates of theirs, a token server. None
// sees anything, and the clouds are not asked for it.
func TestSecIdentityLeavesForNobodyElse(t *testing.T) {
	t.Parallel()
	clouds := cloudtest.Start(t)
	var seen []string
	evil := &front{}
	evil.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		evil.mu.Lock()
		defer evil.mu.Unlock()
		seen = append(seen, r.Header.Get("Authorization"))
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	evil.Config.ErrorLog = nil
	t.Cleanup(evil.Close)
	identity := upstream.Credential{Method: upstream.MethodWorkloadIdentity, Cloud: upstream.CloudAWS}

	// Another host, at which the system's certificates do not matter either.
	s := newIdentitySubject(t, clouds, upstream.Definition{URL: evil.url("team/web"), Credential: identity}, nil)
	field, ok := errors.AsType[*mirror.FieldError](s.Check(s.def))
	if !ok || field.Field != "url" || !strings.Contains(field.Message, "gitcache-identity-registries") {
		t.Errorf("got %v, want the URL refused", field)
	}
	if err := s.try(t.Context()); err == nil {
		t.Error("a repository at another host was fetched")
	}
	// A listed host, for which a document brings certificates of its own. Validation refuses that; a record
	// that was changed behind its back is refused, too.
	s = newIdentitySubject(t, clouds, upstream.Definition{URL: evil.url("team/web"), Credential: identity}, nil, evil.Listener.Addr().String())
	s.def.CAPEM = evil.caPEM()
	if err := s.try(t.Context()); err == nil {
		t.Error("a repository with certificates of its own was fetched")
	}
	// The operator's credential of a prefix, where a document brings certificates.
	shared := prefixes{"oci://" + evil.Listener.Addr().String(): {Credential: identity, Prefix: "p"}}
	s = newIdentitySubject(t, clouds, upstream.Definition{URL: evil.url("team/web"), CAPEM: evil.caPEM()}, shared, evil.Listener.Addr().String())
	if err := s.try(t.Context()); err == nil {
		t.Error("a repository with certificates of its own was fetched")
	}
	evil.mu.Lock()
	for _, header := range seen {
		if header != "" {
			t.Errorf("got the header %q", header)
		}
	}
	evil.mu.Unlock()
	if asked := clouds.Take(); len(asked) != 0 {
		t.Errorf("got the requests %v at the clouds, want none", asked)
	}

	// A registry that may have it names a token server elsewhere, which the document lists.
	tokens := newTokenServer(t)
	f := newFront(t, "127.0.0.1:1", true)
	f.fail(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("WWW-Authenticate", `Bearer realm="https://`+tokens.host()+`/token",service="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	host := f.Listener.Addr().String()
	shared = prefixes{"oci://" + host: {Credential: identity, CAPEM: f.caPEM(), Prefix: "p"}}
	s = newIdentitySubject(t, clouds, upstream.Definition{
		URL: f.url("team/web"), TokenHosts: upstream.NewList([]string{tokens.host()}),
	}, shared, host)
	wantReason(t, s.try(t.Context()), reason.UpstreamAuthRejected)
	if asked, saw := tokens.take(); len(asked)+len(saw) != 0 {
		t.Errorf("got %v at the token server, want nothing", asked)
	}
}

// TestNoIdentity refuses the method where gitcache has no logins.
func TestNoIdentity(t *testing.T) {
	t.Parallel()
	s := newSubject(t, upstream.Definition{
		URL: "oci://europe-docker.pkg.dev/team/web", Credential: upstream.Credential{Method: upstream.MethodWorkloadIdentity, Cloud: upstream.CloudGCP},
	})
	if field, ok := errors.AsType[*mirror.FieldError](s.Check(s.def)); !ok || field.Field != "credential.workload_identity" {
		t.Errorf("got %v, want it refused", field)
	}
	if err := s.try(t.Context()); err == nil {
		t.Error("it was fetched")
	}
}

// Mirrors implements uploadpack.Credentials.
func (prefixes) Mirrors(string) []string { return nil }
