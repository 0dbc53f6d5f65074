// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package vaultkv_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/internal/testkit/vaultdouble"
	"github.com/leatdev/leat/services/distributor/internal/config/backendcall"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/config/configstest"
	"github.com/leatdev/leat/services/distributor/internal/config/vaultkv"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

func open(t *testing.T, v catalog.VaultBackend, credential, tokenFile string) *vaultkv.Backend {
	t.Helper()
	backend := &catalog.ConfigBackend{}
	backend.Spec.Vault = &v
	backend.Spec.Credential = secretOf(credential)
	b, err := vaultkv.Open(backend, vaultkv.Params{
		HubToken: backendcall.HubToken{File: tokenFile, Hosts: []string{strings.TrimPrefix(v.URL, "http://")}}, Guard: dialguard.Guard{AllowLocal: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func place(s *vaultdouble.Server, mount string, b configs.Backend) configstest.Place {
	return configstest.Place{
		Backend: b, HasVersions: mount == "secret", Path: func(name string) string { return "team/" + name },
		Put:      func(_ *testing.T, path string, fields map[string]string) { s.Put(mount, path, fields) },
		Remove:   func(_ *testing.T, path string) { s.Remove(mount, path) },
		Deny:     func(_ *testing.T, path string) { s.Deny(mount, path, true) },
		Throttle: func(_ *testing.T, after time.Duration) { s.Throttle(after) },
		Break: func(*testing.T) func() {
			s.Seal(true)
			return func() { s.Seal(false) }
		},
		Hang: func(*testing.T) { s.Hang() },
	}
}

func TestVersion2(t *testing.T) {
	t.Parallel()
	configstest.Run(t, func(t *testing.T) configstest.Place {
		s := vaultdouble.Start(t)
		return place(s, "secret", open(t, catalog.VaultBackend{URL: s.URL, Auth: catalog.VaultByToken}, s.Token("hvs.t"), ""))
	})
}

func TestVersion1(t *testing.T) {
	t.Parallel()
	configstest.Run(t, func(t *testing.T) configstest.Place {
		s := vaultdouble.Start(t)
		return place(s, "kv", open(t, catalog.VaultBackend{URL: s.URL, Mount: "kv", Version: 1, Auth: catalog.VaultByToken}, s.Token("hvs.t"), ""))
	})
}

// TestSignIn reads with each method, and continues when the server has ended the session.
func TestSignIn(t *testing.T) {
	t.Parallel()
	proof := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(proof, []byte(vaultdouble.Proof+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, v := range []catalog.VaultBackend{
		{Auth: catalog.VaultByAppRole, Role: vaultdouble.RoleID}, {Auth: catalog.VaultByKubernetes, Role: vaultdouble.Role}, {Auth: catalog.VaultByJWT, Role: vaultdouble.Role},
	} {
		s := vaultdouble.Start(t)
		s.Put("secret", "app", map[string]string{"a": "1"})
		v.URL = s.URL
		b := open(t, v, vaultdouble.SecretID, proof)
		for range 3 {
			if _, err := b.Read(t.Context(), "app"); err != nil {
				t.Fatalf("%s: %v", v.Auth, err)
			}
		}
		if got := s.Logins(); got != 1 {
			t.Errorf("%s: signed in %d times for three reads, want once", v.Auth, got)
		}
		s.RevokeAll()
		if _, err := b.Read(t.Context(), "app"); err != nil || s.Logins() != 2 {
			t.Errorf("%s: after the session was ended: got %v and %d sign-ins, want a new one", v.Auth, err, s.Logins())
		}
	}
}

// TestSignInIsRefused asks a server that does not know the credential. It is not asked again at
// once.
func TestSignInIsRefused(t *testing.T) {
	t.Parallel()
	s := vaultdouble.Start(t)
	b := open(t, catalog.VaultBackend{URL: s.URL, Auth: catalog.VaultByAppRole, Role: vaultdouble.RoleID}, "not-"+vaultdouble.SecretID, "")
	for range 5 {
		_, err := b.Read(t.Context(), "app")
		_, isDenied := errors.AsType[*configs.DeniedError](err)
		if err == nil || isDenied || strings.Contains(err.Error(), vaultdouble.SecretID) {
			t.Errorf("got %v, want an error that is no answer about the entry", err)
		}
	}
}

// TestDynamicCredentialIsRefused asks for an entry that has a lease.
func TestDynamicCredentialIsRefused(t *testing.T) {
	t.Parallel()
	s := vaultdouble.Start(t)
	s.Answer(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"lease_id": "database/creds/app/1", "lease_duration": 3600, "data": {"password": "`+configstest.Canary+`"}}`)
	})
	b := open(t, catalog.VaultBackend{URL: s.URL, Mount: "database", Version: 1, Auth: catalog.VaultByToken}, s.Token("hvs.t"), "")
	_, err := b.Read(t.Context(), "creds/app")
	if denied, ok := errors.AsType[*configs.DeniedError](err); !ok || !strings.Contains(denied.Detail, "dynamic credential") {
		t.Errorf("got %v, want a refusal that says why", err)
	}
}

// TestStaticTokenIsRenewed reads at half of the life of the document's token, with a clock of its own.
func TestStaticTokenIsRenewed(t *testing.T) {
	t.Parallel()
	s := vaultdouble.NewServer()
	s.Put("secret", "app", map[string]string{"a": "1"})
	synctest.Test(t, func(t *testing.T) {
		b, err := vaultkv.OpenOver(&catalog.ConfigBackend{Spec: catalog.ConfigBackendSpec{
			Vault: &catalog.VaultBackend{URL: "http://vault.test", Auth: catalog.VaultByToken}, Credential: secretOf(s.Token("hvs.t")),
		}}, s)
		if err != nil {
			t.Fatal(err)
		}
		read := func(want int) {
			t.Helper()
			if _, err := b.Read(t.Context(), "app"); err != nil || s.Renewals() != want {
				t.Fatalf("got %v and %d renewals, want %d", err, s.Renewals(), want)
			}
		}
		read(0)
		time.Sleep(29 * time.Minute)
		read(0)
		time.Sleep(2 * time.Minute)
		read(1)
		time.Sleep(29 * time.Minute)
		read(1)
		time.Sleep(2 * time.Minute)
		read(2)
		// A server that is sealed does not end the session.
		time.Sleep(31 * time.Minute)
		s.Seal(true)
		if _, err := b.Read(t.Context(), "app"); err == nil {
			t.Error("a sealed server gave an entry")
		}
		s.Seal(false)
		time.Sleep(10 * time.Second)
		read(3)
	})
}

// TestStaticTokenIsRevoked does not take the end of the token for a denial of the entry.
func TestStaticTokenIsRevoked(t *testing.T) {
	t.Parallel()
	s := vaultdouble.Start(t)
	s.Put("secret", "app", map[string]string{"a": "1"})
	b := open(t, catalog.VaultBackend{URL: s.URL, Auth: catalog.VaultByToken}, s.Token("hvs.t"), "")
	if _, err := b.Read(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
	s.RevokeAll()
	_, err := b.Read(t.Context(), "app")
	if _, isDenied := errors.AsType[*configs.DeniedError](err); err == nil || isDenied || !strings.Contains(err.Error(), "not valid any more") {
		t.Errorf("got %v, want that the token is not valid", err)
	}
}

// TestSecHubTokenGoesOnlyWhereTheOperatorSays has a document send the hub to another server.
func TestSecHubTokenGoesOnlyWhereTheOperatorSays(t *testing.T) {
	t.Parallel()
	proof := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(proof, []byte(vaultdouble.Proof), 0o600); err != nil {
		t.Fatal(err)
	}
	s := vaultdouble.Start(t)
	for _, hosts := range [][]string{nil, {"vault.example:8200"}, {"127.0.0.1"}} {
		backend := &catalog.ConfigBackend{Spec: catalog.ConfigBackendSpec{Vault: &catalog.VaultBackend{
			URL: s.URL, Auth: catalog.VaultByKubernetes, Role: vaultdouble.Role,
		}}}
		b, err := vaultkv.Open(backend, vaultkv.Params{
			HubToken: backendcall.HubToken{File: proof, Hosts: hosts}, Guard: dialguard.Guard{AllowLocal: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "--distributor-config-token-hosts") || s.Logins() != 0 {
			t.Errorf("%v: got %v after %d sign-ins, want a refusal before any", hosts, err, s.Logins())
		}
	}
}

// TestSecVaultRedirectsAreNotFollowed has the server send the hub, with its token, elsewhere.
func TestSecVaultRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var visits atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
	t.Cleanup(elsewhere.Close)
	s := vaultdouble.Start(t)
	s.Answer(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	b := open(t, catalog.VaultBackend{URL: s.URL, Auth: catalog.VaultByToken}, s.Token("hvs.t"), "")
	if _, err := b.Read(t.Context(), "app"); err == nil || !strings.Contains(err.Error(), "redirects") || visits.Load() != 0 {
		t.Errorf("got %v after %d visits, want an error and none", err, visits.Load())
	}
}

// TestSecVaultAnswersAreBounded has the server send without end, and send invalid entries.
func TestSecVaultAnswersAreBounded(t *testing.T) {
	t.Parallel()
	s := vaultdouble.Start(t)
	b := open(t, catalog.VaultBackend{URL: s.URL, Auth: catalog.VaultByToken}, s.Token("hvs.t"), "")
	for name, answer := range map[string]func(w io.Writer){
		"endless": func(w io.Writer) {
			for {
				if _, err := io.WriteString(w, strings.Repeat(configstest.Canary, 1000)); err != nil {
					return
				}
			}
		},
		"no JSON": func(w io.Writer) { _, _ = io.WriteString(w, configstest.Canary) },
		"a list": func(w io.Writer) {
			_, _ = io.WriteString(w, `{"data": {"data": ["`+configstest.Canary+`"], "metadata": {"version": 1}}}`)
		},
		"version text": func(w io.Writer) {
			_, _ = io.WriteString(w, `{"data": {"data": {}, "metadata": {"version": "`+configstest.Canary+`"}}}`)
		},
		"many keys": func(w io.Writer) {
			_, _ = io.WriteString(w, `{"data": {"data": {"a": 1`+manyKeys(configs.MaxFields)+`}, "metadata": {"version": 1}}}`)
		},
		"deep": func(w io.Writer) { _, _ = io.WriteString(w, strings.Repeat(`{"data":`, 100_000)) },
	} {
		s.Answer(func(w http.ResponseWriter, _ *http.Request) { answer(w) })
		_, err := b.Read(t.Context(), "app")
		if err == nil || strings.Contains(err.Error(), configstest.Canary) {
			t.Errorf("%s: got %v, want an error without the answer", name, err)
		}
	}
}

// TestSecVaultAtTheHubsOwnMachine is not dialled unless the hub allows it.
func TestSecVaultAtTheHubsOwnMachine(t *testing.T) {
	t.Parallel()
	s := vaultdouble.Start(t)
	s.Put("secret", "app", map[string]string{"a": "1"})
	backend := &catalog.ConfigBackend{}
	backend.Spec.Vault = &catalog.VaultBackend{URL: s.URL, Auth: catalog.VaultByToken}
	backend.Spec.Credential = secretOf(s.Token("hvs.t"))
	b, err := vaultkv.Open(backend, vaultkv.Params{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Read(t.Context(), "app"); !errors.Is(err, dialguard.ErrLocal) {
		t.Errorf("got %v, want %v", err, dialguard.ErrLocal)
	}
}
