// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloudvalues_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/cloud"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/internal/testkit/cloudtest"
	"github.com/leatdev/leat/services/distributor/internal/config/cloudvalues"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/config/configstest"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// specs are back ends at the clouds of a test.
func specs(clouds *cloudtest.Clouds) map[string]catalog.ConfigBackendSpec {
	return map[string]catalog.ConfigBackendSpec{
		"aws":   {AWS: &catalog.AWSBackend{Region: cloudtest.Region}},
		"gcp":   {GCP: &catalog.GCPBackend{Project: cloudtest.Project}},
		"azure": {Azure: &catalog.AzureBackend{URL: clouds.URL}},
	}
}

func params(t *testing.T, clouds *cloudtest.Clouds) cloudvalues.Params {
	t.Helper()
	identity, err := cloud.New(cloud.Params{
		Config: clouds.Environment(cloudtest.TokenFile(t)), Caller: "the distributor", Prefix: "distributor", GoogleRole: "a role",
	})
	if err != nil {
		t.Fatal(err)
	}
	return cloudvalues.Params{
		Open: cloudvalues.Clouds(), Identity: identity, AWSURL: clouds.URL + "/aws/secrets", GoogleURL: clouds.URL + "/google/secrets", AllowLocal: true,
	}
}

func open(t *testing.T, clouds *cloudtest.Clouds, kind string) *cloudvalues.Backend {
	t.Helper()
	b, err := cloudvalues.Open(&catalog.ConfigBackend{Spec: specs(clouds)[kind]}, params(t, clouds))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestClouds(t *testing.T) {
	t.Parallel()
	for _, kind := range cloudvalues.Clouds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			configstest.Run(t, func(t *testing.T) configstest.Place { return place(t, kind) })
		})
	}
}

func place(t *testing.T, kind string) configstest.Place {
	t.Helper()
	clouds := cloudtest.Start(t)
	return configstest.Place{
		Backend: open(t, clouds, kind), HasVersions: true, Largest: 60 << 10, Path: func(name string) string { return "team-" + name },
		Put: func(t *testing.T, path string, fields map[string]string) {
			t.Helper()
			text, err := json.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			clouds.PutSecret(path, string(text))
		},
		Remove:   func(_ *testing.T, path string) { clouds.RemoveSecret(path) },
		Deny:     func(_ *testing.T, path string) { clouds.DenySecret(path) },
		Throttle: func(_ *testing.T, after time.Duration) { clouds.ThrottleSecrets(after) },
		Break: func(*testing.T) func() {
			clouds.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(http.StatusInternalServerError)
				return true
			})
			return func() { clouds.Fail(nil) }
		},
		Hang: func(t *testing.T) {
			t.Helper()
			done := make(chan struct{})
			t.Cleanup(func() { close(done) })
			clouds.Fail(func(_ http.ResponseWriter, r *http.Request) bool {
				select {
				case <-done:
				case <-r.Context().Done():
				}
				return true
			})
		},
	}
}

// TestPlainSecrets reads secrets that are no JSON objects, and one that is not text.
func TestPlainSecrets(t *testing.T) {
	t.Parallel()
	clouds := cloudtest.Start(t)
	for _, kind := range cloudvalues.Clouds() {
		b := open(t, clouds, kind)
		for name, value := range map[string]string{"plain": "a plain text", "list": `["a"]`, "null": "null", "empty": ""} {
			clouds.PutSecret(name, value)
			entry, err := b.Read(t.Context(), name)
			if err != nil || len(entry.Fields) != 1 || entry.Fields["content"].Reveal() != value {
				t.Errorf("%s %s: got %d fields and %v, want the one key content", kind, name, len(entry.Fields), err)
			}
		}
	}
	clouds.PutSecret("binary", "\xff\xfe")
	entry, err := open(t, clouds, "gcp").Read(t.Context(), "binary")
	if err != nil || len(entry.Fields) != 0 || len(entry.NotText) != 1 {
		t.Errorf("got %v and %v, want a key that is not text", entry, err)
	}
}

// TestSignIns shows that what signs in serves many reads, and is obtained again when the service
// refuses it.
func TestSignIns(t *testing.T) {
	t.Parallel()
	for kind, refusal := range map[string]func(w http.ResponseWriter){
		"aws": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type": "ExpiredTokenException", "message": "The security token included in the request is expired"}`)
		},
		"gcp":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) },
		"azure": func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) },
	} {
		clouds := cloudtest.Start(t)
		clouds.PutSecret("app", `{"a": "1"}`)
		b := open(t, clouds, kind)
		for range 3 {
			if _, err := b.Read(t.Context(), "app"); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
		}
		if got := clouds.Take(); len(got) != 4 {
			t.Errorf("%s: got the requests %v, want one to sign in and three reads", kind, got)
		}
		var isRefused atomic.Bool
		clouds.Fail(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/secrets/") || isRefused.Swap(true) {
				return false
			}
			refusal(w)
			return true
		})
		if _, err := b.Read(t.Context(), "app"); err != nil || len(clouds.Take()) != 3 {
			t.Errorf("%s: got %v after a refusal, want another sign-in and the entry", kind, err)
		}
	}
}

// TestSignInIsRefused does not take a refusal of the hub's identity for one of the secret.
func TestSignInIsRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range cloudvalues.Clouds() {
		clouds := cloudtest.Start(t)
		clouds.PutSecret("app", `{"a": "1"}`)
		clouds.Fail(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/secrets/") {
				return false
			}
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"error": "access_denied", "error_description": "`+configstest.Canary+` `+cloudtest.PodToken+`"}`)
			return true
		})
		_, err := open(t, clouds, kind).Read(t.Context(), "app")
		_, isDenied := errors.AsType[*configs.DeniedError](err)
		if err == nil || isDenied || strings.Contains(err.Error(), cloudtest.PodToken) {
			t.Errorf("%s: got %v, want an error that is no answer about the secret and holds no token", kind, err)
		}
	}
}

// TestSecCloudsAreClosedUntilOpened refuses clouds that the operator did not open.
func TestSecCloudsAreClosedUntilOpened(t *testing.T) {
	t.Parallel()
	clouds := cloudtest.Start(t)
	for kind, spec := range specs(clouds) {
		p := params(t, clouds)
		p.Open = nil
		if _, err := cloudvalues.Open(&catalog.ConfigBackend{Spec: spec}, p); err == nil || !strings.Contains(err.Error(), "--distributor-config-clouds") {
			t.Errorf("%s: got %v, want the flag that opens it", kind, err)
		}
	}
	p := params(t, clouds)
	p.AllowLocal = false
	for _, url := range []string{clouds.URL, "https://169.254.169.254", "https://vault.azure.net.example.org", "http://team.vault.azure.net"} {
		_, err := cloudvalues.Open(&catalog.ConfigBackend{Spec: catalog.ConfigBackendSpec{Azure: &catalog.AzureBackend{URL: url}}}, p)
		if !errors.Is(err, dialguard.ErrLocal) {
			t.Errorf("%s: got %v, want that it is not a vault of Azure", url, err)
		}
	}
	if got := clouds.Take(); len(got) != 0 {
		t.Errorf("got the requests %v, want none", got)
	}
}

// TestSecCloudAnswersAreBounded has the clouds send without end, about other secrets, and redirect.
func TestSecCloudAnswersAreBounded(t *testing.T) {
	t.Parallel()
	var visits atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
	t.Cleanup(elsewhere.Close)
	for _, kind := range cloudvalues.Clouds() {
		for name, fault := range map[string]func(w http.ResponseWriter, r *http.Request){
			"endless": func(w http.ResponseWriter, _ *http.Request) {
				for {
					if _, err := io.WriteString(w, strings.Repeat(configstest.Canary, 1000)); err != nil {
						return
					}
				}
			},
			"redirect": func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			},
			"deep": func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, strings.Repeat(`{"payload":`, 20_000))
			},
			"another secret": func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"Name": "other", "SecretString": "`+configstest.Canary+`", "name": "projects/1/secrets/other/versions/1",
					"id": "https://x/secrets/other/00000000000000000000000000000000", "value": "`+configstest.Canary+`"}`)
			},
			"a refusal with the value": func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, `{"__type": "AccessDeniedException", "message": "`+configstest.Canary+`"}`)
			},
		} {
			clouds := cloudtest.Start(t)
			clouds.Fail(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "/secrets/") {
					return false
				}
				fault(w, r)
				return true
			})
			if _, err := open(t, clouds, kind).Read(t.Context(), "app"); err == nil || strings.Contains(err.Error(), configstest.Canary) {
				t.Errorf("%s, %s: got %v, want an error without the answer", kind, name, err)
			}
		}
	}
	if visits.Load() != 0 {
		t.Errorf("got %d visits elsewhere, want none", visits.Load())
	}
}

// TestPathsAreNames asks for what cannot be names. Nothing is sent.
func TestPathsAreNames(t *testing.T) {
	t.Parallel()
	clouds := cloudtest.Start(t)
	for _, kind := range cloudvalues.Clouds() {
		b := open(t, clouds, kind)
		for _, path := range []string{"a b", "a:b", "arn:aws:secretsmanager:eu-central-1:1:secret:x", "a?b", "ü", strings.Repeat("a", 600)} {
			if _, err := b.Read(t.Context(), path); err == nil {
				t.Errorf("%s: the path %q leads to an entry", kind, path)
			}
		}
	}
	if got := clouds.Take(); len(got) != 0 {
		t.Errorf("got the requests %v, want none", got)
	}
}
