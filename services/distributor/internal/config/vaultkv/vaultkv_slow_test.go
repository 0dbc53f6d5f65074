// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package vaultkv_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/testkit/vaulttest"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/config/configstest"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestSlowVault has a real Vault pass what its double passes, with the policy of the documentation:
// both versions of the engine, and the sign-in by token and by AppRole.
func TestSlowVault(t *testing.T) {
	t.Parallel()
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: a real Vault is left to `make test-all`")
	}
	server := vaulttest.Start(t)
	server.Call(t, http.MethodPost, "sys/auth/approle", map[string]any{"type": "approle"}, nil)
	admin := &admin{server: server}
	for _, version := range []string{"1", "2"} {
		for _, auth := range []catalog.VaultAuth{catalog.VaultByToken, catalog.VaultByAppRole} {
			t.Run(version+" "+string(auth), func(t *testing.T) {
				configstest.Run(t, func(t *testing.T) configstest.Place { return admin.place(t, version, auth) })
			})
		}
	}
}

// admin sets a Vault up. The server's calls are for one goroutine at a time.
type admin struct {
	mu      sync.Mutex
	server  *vaulttest.Server
	engines int
}

func (a *admin) call(t *testing.T, method, path string, body, answer any) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.server.Call(t, method, path, body, answer)
}

// place returns an engine of its own.
func (a *admin) place(t *testing.T, version string, auth catalog.VaultAuth) configstest.Place {
	t.Helper()
	a.mu.Lock()
	a.engines++
	mount := fmt.Sprintf("engine%d", a.engines)
	a.mu.Unlock()
	a.call(t, http.MethodPost, "sys/mounts/"+mount, map[string]any{"type": "kv", "options": map[string]string{"version": version}}, nil)
	data := func(path string) string {
		if version == "2" {
			return mount + "/data/" + path
		}
		return mount + "/" + path
	}
	policy := func(t *testing.T, more string) {
		t.Helper()
		text := `path "` + mount + `/*" { capabilities = ["read"] }` + more
		a.call(t, http.MethodPut, "sys/policies/acl/"+mount, map[string]any{"policy": text}, nil)
	}
	policy(t, "")
	v := catalog.VaultBackend{URL: a.server.URL, Mount: mount, Version: int(version[0] - '0'), Auth: auth}
	credential := a.credential(t, &v, mount)
	place := configstest.Place{
		Backend: open(t, v, credential, ""), HasVersions: version == "2", Path: func(name string) string { return "team/" + name },
		Put: func(t *testing.T, path string, fields map[string]string) {
			t.Helper()
			var body any = fields
			if version == "2" {
				body = map[string]any{"data": fields}
			}
			a.call(t, http.MethodPost, data(path), body, nil)
		},
		Remove: func(t *testing.T, path string) { t.Helper(); a.call(t, http.MethodDelete, data(path), nil, nil) },
		Deny: func(t *testing.T, path string) {
			t.Helper()
			policy(t, ` path "`+data(path)+`" { capabilities = ["deny"] }`)
		},
	}
	a.await(t, place)
	return place
}

// await waits for a new engine of version 2, which upgrades itself first.
func (a *admin) await(t *testing.T, place configstest.Place) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		_, err := place.Backend.Read(t.Context(), "team/absent")
		if _, ok := errors.AsType[*configs.NotFoundError](err); ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the engine does not answer: %v", err)
		}
		if err := backoff.Wait(t.Context(), 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// credential returns what the hub signs in with, under the policy of that name.
func (a *admin) credential(t *testing.T, v *catalog.VaultBackend, policy string) string {
	t.Helper()
	if v.Auth == catalog.VaultByToken {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.server.Token(t, policy, time.Hour)
	}
	role := "auth/approle/role/" + policy
	a.call(t, http.MethodPost, role, map[string]any{"token_policies": policy, "token_period": "1h"}, nil)
	var id, secret struct {
		Data map[string]any `json:"data"`
	}
	a.call(t, http.MethodGet, role+"/role-id", nil, &id)
	a.call(t, http.MethodPost, role+"/secret-id", map[string]any{}, &secret)
	v.Role = fmt.Sprint(id.Data["role_id"])
	return fmt.Sprint(secret.Data["secret_id"])
}
