// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloudlogin_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/runtime/cloud"
	"github.com/leatdev/leat/internal/testkit/cloudtest"
	"github.com/leatdev/leat/services/gitcache/internal/cloudlogin"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// TestSecIdentityStaysInItsCloud asks for logins to registries that only look like a cloud's own. None
// gets one, and no exchange is begun for it.
func TestSecIdentityStaysInItsCloud(t *testing.T) {
	t.Parallel()
	s := newSubject(t, func(c *cloudlogin.Config) {
		c.Registries = []string{"mirror.example:5000"}
		c.AWSRegion = cloudtest.Region
	})
	for _, address := range []string{
		"https://evil.example", "https://" + ecr + ".evil.example", "https://evil.example/" + ecr, "https://evil" + ecr, "https://x." + ecr,
		"https://" + ecr + ":8443", "http://" + ecr, "https://" + ecr + ".", "https://" + ecr + "@evil.example", "https://evil@" + ecr,
		"https://1.dkr.ecr.eu-central-1.amazonaws.com", "https://123456789012.dkr.ecr.evil.example.amazonaws.com",
		"https://123456789012.dkr.ecr.eu-central-1.amazonaws.com.evil", "https://bucket.s3.amazonaws.com", "https://123456789012.dkr-ecr.eu-central-1.on.aws.evil",
		"https://" + gar + ".evil.example", "https://evilpkg.dev", "https://pkg.dev", "https://a.b.pkg.dev", "https://evilgcr.io", "https://a.b.gcr.io",
		"http://gcr.io", "https://gcr.io:444", "https://storage.googleapis.com",
		"https://team.azurecr.io.evil.example", "https://evilazurecr.io", "https://azurecr.io", "https://a.b.azurecr.io", "https://team-.azurecr.io",
		"https://team.azurewebsites.net", "http://team.azurecr.io",
		"https://mirror.example", "https://mirror.example:5001", "http://mirror.example:5000", "https://x.mirror.example:5000",
		"https://127.0.0.1", "https://[::1]", "https://169.254.169.254",
	} {
		registry, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		for _, cloud := range []upstream.Cloud{upstream.CloudAWS, upstream.CloudGCP, upstream.CloudAzure, "other", ""} {
			got, _, err := s.Login(t.Context(), identity(cloud), registry, nobody{})
			field, ok := errors.AsType[*mirror.FieldError](err)
			if !ok || got != (upstream.DockerLogin{}) || !strings.HasSuffix(field.Message, ".") {
				t.Errorf("%s, %s: got %v, want it refused", cloud, address, err)
			}
			if s.Check(identity(cloud), registry) == nil {
				t.Errorf("%s, %s: the check lets it through", cloud, address)
			}
		}
	}
	for cloud, others := range map[upstream.Cloud][]string{
		upstream.CloudAWS: {gar, acr, "gcr.io"}, upstream.CloudGCP: {ecr, acr}, upstream.CloudAzure: {ecr, gar},
	} {
		for _, host := range others {
			if _, _, err := s.Login(t.Context(), identity(cloud), at(host), nobody{}); err == nil {
				t.Errorf("the login of %s goes to %s", cloud, host)
			}
		}
	}
	if asked := s.clouds.Take(); len(asked) != 0 {
		t.Errorf("got the requests %v, want none", asked)
	}
}

// TestSecIdentityFieldsBecomeNoPath puts hosts and paths into what names an identity.
func TestSecIdentityFieldsBecomeNoPath(t *testing.T) {
	t.Parallel()
	s := newSubject(t, nil)
	for _, text := range []string{
		"../../x", "evil.example/x?", "eu-central-1.evil.example/", "a@b/../../x", "arn:aws:iam::1:role/x", "arn:aws:iam::123456789012:user/x",
		"projects/1/locations/global/workloadIdentityPools/a/providers/b/../c", "x\r\ny: z", "#", strings.Repeat("a", 5000),
	} {
		for cloud, host := range map[upstream.Cloud]string{upstream.CloudAWS: ecr, upstream.CloudGCP: gar, upstream.CloudAzure: acr} {
			for _, c := range []upstream.Credential{
				{Method: upstream.MethodWorkloadIdentity, Cloud: cloud, Principal: text}, {Method: upstream.MethodWorkloadIdentity, Cloud: cloud, Scope: text},
			} {
				if _, err := s.login(t.Context(), c, host); err == nil {
					t.Errorf("%s: got a login for %+q", cloud, text)
				}
			}
		}
	}
	if asked := s.clouds.Take(); len(asked) != 0 {
		t.Errorf("got the requests %v, want none", asked)
	}
}

// TestSecHostileTokenServices has every request of an exchange answered by an attacker who wants
// the pod's token elsewhere, much of gitcache's memory or time, or the token in a message that
// people see.
func TestSecHostileTokenServices(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int32
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(evil.Close)
	federated := identity(upstream.CloudGCP)
	federated.Scope, federated.Principal = cloudtest.Provider, cloudtest.Account
	credentials := map[string]upstream.Credential{
		ecr: identity(upstream.CloudAWS), "gcr.io": identity(upstream.CloudGCP), gar: federated, acr: identity(upstream.CloudAzure),
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		chunk := []byte(strings.Repeat(`{"access_token":"a"`, 1000))
		for range 1 << 14 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
		t.Error("an endless answer was read to its end")
	}
	for name, answer := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, evil.URL, http.StatusTemporaryRedirect)
		},
		"endless":  endless,
		"nothing":  func(http.ResponseWriter, *http.Request) {},
		"a page":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>login</html>")) },
		"an array": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[]")) },
		"an entity": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>`))
		},
		"a header in the token": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Metadata-Flavor", "Google")
			_, _ = w.Write([]byte(`{"access_token":"a\r\nX-Evil: 1","accessToken":"a b","refresh_token":"a\nb","expires_in":3600}`))
		},
		"an ended token": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Metadata-Flavor", "Google")
			_, _ = w.Write([]byte(`{"access_token":"a","expires_in":-5}`))
		},
		"repeats the token": func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"error":"invalid_request","error_description":"AADSTS700016: application 11111111-2222-3333-4444-555555555555 `+
				`refused %s %s"}`, r.Form.Encode(), cloudtest.PodToken)
		},
	} {
		s := newSubject(t, nil)
		s.clouds.Fail(func(w http.ResponseWriter, r *http.Request) bool {
			answer(w, r)
			return true
		})
		for host, credential := range credentials {
			got, err := s.login(t.Context(), credential, host)
			failed, ok := errors.AsType[*mirror.UpstreamError](err)
			if !ok || got != "" {
				t.Errorf("%s, %s: got %q, %v, want a failure of the cloud", name, host, got, err)
				continue
			}
			if text := fmt.Sprintf("%v %+v", err, failed); cloudtest.IsSecret(text) || len(failed.Message) > 1000 {
				t.Errorf("%s, %s: got %s, want no token in it", name, host, text)
			}
			if name == "repeats the token" && host == acr && !strings.Contains(failed.Message, "AADSTS700016") {
				t.Errorf("got %s, want what the cloud said", failed.Message)
			}
		}
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("got %d requests at another server, want no redirect followed", n)
	}
}

// TestSecIdentitySettings refuses services to which the pod's token would travel unencrypted, and token
// files that hold anything but a token.
func TestSecIdentitySettings(t *testing.T) {
	t.Parallel()
	for _, bad := range []cloudlogin.Config{
		{Config: cloud.Config{STSURL: "http://sts.example"}},
		{ECRURL: "http://10.0.0.1"},
		{Config: cloud.Config{GCPSTSURL: "ftp://x"}},
		{Config: cloud.Config{GCPIAMURL: "https://u:p@x"}},
		{Config: cloud.Config{AzureAuthorityURL: "//x"}},
		{Config: cloud.Config{AzureAuthorityURL: "https://x?y=z"}},
		{Config: cloud.Config{GCPMetadataHost: "evil/x"}},
		{Registries: []string{"https://x"}},
		{Registries: []string{"*.example"}},
		{Registries: []string{""}},
	} {
		if _, err := cloudlogin.New(bad, time.Now); err == nil {
			t.Errorf("got no error for %+v", bad)
		}
	}
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, []byte(strings.Repeat("a", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(lines, []byte("canary\nX-Evil: 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{large, lines, t.TempDir(), "/dev/zero"} {
		s := newSubject(t, func(c *cloudlogin.Config) { c.AWSTokenFile = path })
		if _, err := s.login(t.Context(), identity(upstream.CloudAWS), ecr); err == nil || cloudtest.IsSecret(err.Error()) || len(s.clouds.Take()) != 0 {
			t.Errorf("%s: got %v, want it refused, and nothing sent", path, err)
		}
	}
}
