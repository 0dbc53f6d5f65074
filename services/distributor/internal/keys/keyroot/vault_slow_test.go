// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package keyroot_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/vaulttest"
	"github.com/leatdev/leat/services/distributor/internal/keys/keyroot"
)

// policy is the policy in docs/operations/keys.md for the distributor, for a key of that name.
func policy(key string) string {
	return `path "team/transit/encrypt/` + key + `" { capabilities = ["update"] }
path "team/transit/decrypt/` + key + `" { capabilities = ["update"] }`
}

// startVault runs a Vault with the transit keys leat and other, and returns roots that are these keys,
// with the file of the first one's token.
func startVault(t *testing.T) (server *vaulttest.Server, root, other *keyroot.Vault, tokenFile string) {
	t.Helper()
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: a real Vault is left to `make test-all`")
	}
	server = vaulttest.Start(t)
	server.Call(t, http.MethodPost, "sys/mounts/team/transit", map[string]any{"type": "transit"}, nil)
	open := func(key string) (*keyroot.Vault, string) {
		server.Call(t, http.MethodPost, "team/transit/keys/"+key, map[string]any{}, nil)
		server.Call(t, http.MethodPut, "sys/policies/acl/"+key, map[string]any{"policy": policy(key)}, nil)
		file := write(t, server.Token(t, key, time.Hour)+"\n")
		return newVault(t, keyroot.VaultParams{URL: server.URL + "/v1/team/transit/keys/" + key, TokenFile: file}), file
	}
	root, tokenFile = open("leat")
	other, _ = open("other")
	return server, root, other, tokenFile
}

// TestSlowVault has a real Vault pass what its double passes, with the policy of the documentation.
func TestSlowVault(t *testing.T) {
	t.Parallel()
	_, root, other, _ := startVault(t)
	conformance(t, root, other)
	if got := root.Name(); got != "vault/team/transit/leat" {
		t.Errorf("got name %q", got)
	}
}

// TestSlowVaultRotatesItsKey replaces the transit key: what the former version wrapped is opened until
// Vault may no longer decrypt with that version.
func TestSlowVaultRotatesItsKey(t *testing.T) {
	t.Parallel()
	server, root, _, _ := startVault(t)
	key := bytes.Repeat([]byte{7}, 32)
	old := wrap(t, root, key)
	server.Call(t, http.MethodPost, "team/transit/keys/leat/rotate", nil, nil)
	renewed := wrap(t, root, key)
	if !bytes.HasPrefix(old, []byte("vault:v1:")) || !bytes.HasPrefix(renewed, []byte("vault:v2:")) {
		t.Errorf("got %.12s and %.12s, want the versions 1 and 2 of the key", old, renewed)
	}
	for _, wrapped := range [][]byte{old, renewed} {
		unwrapped(t, root, wrapped, key)
	}
	server.Call(t, http.MethodPost, "team/transit/keys/leat/config", map[string]any{"min_decryption_version": 2}, nil)
	if got, err := root.Unwrap(t.Context(), old, "a"); !errors.Is(err, keyroot.ErrRefused) || got != nil {
		t.Errorf("after the end of version 1: got %v, want %v", err, keyroot.ErrRefused)
	}
	unwrapped(t, root, renewed, key)
}

// TestSlowVaultIsAway seals Vault, ends it, and takes the token and the policy away. Each of these
// passes: the call is made again later, and succeeds.
func TestSlowVaultIsAway(t *testing.T) {
	t.Parallel()
	server, root, _, tokenFile := startVault(t)
	key := bytes.Repeat([]byte{7}, 32)
	wrapped := wrap(t, root, key)
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, want  string
		begin, stop func()
	}{
		{"sealed", "503", func() { server.Seal(t) }, func() { server.Unseal(t) }},
		{"not running", "refused", server.Stop, func() { server.Restart(t) }},
		{
			"expired token", "403", func() { server.Revoke(t, strings.TrimSpace(string(token))) },
			func() { put(t, tokenFile, server.Token(t, "leat", time.Hour)) },
		},
		{
			"another policy", "403", func() { put(t, tokenFile, server.Token(t, "other", time.Hour)) },
			func() { put(t, tokenFile, server.Token(t, "leat", time.Hour)) },
		},
		{
			"without a policy", "403", func() {
				server.Call(t, http.MethodPut, "sys/policies/acl/leat", map[string]any{"policy": policy("other")}, nil)
			},
			func() {
				server.Call(t, http.MethodPut, "sys/policies/acl/leat", map[string]any{"policy": policy("leat")}, nil)
			},
		},
	} {
		test.begin()
		_, err1 := root.Wrap(t.Context(), key, "a")
		got, err2 := root.Unwrap(t.Context(), wrapped, "a")
		for _, err := range []error{err1, err2} {
			if !errors.Is(err, keyroot.ErrUnavailable) || !strings.Contains(err.Error(), test.want) || got != nil {
				t.Errorf("%s: got %v, want %v with %q", test.name, err, keyroot.ErrUnavailable, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "hvs.") {
				t.Errorf("%s: the error %q contains the token", test.name, err)
			}
		}
		test.stop()
		unwrapped(t, root, wrapped, key)
	}
}

// TestSlowVaultWithoutTheKey asks for a key and for an engine that do not exist: the error names
// what to check, and is permanent.
func TestSlowVaultWithoutTheKey(t *testing.T) {
	t.Parallel()
	server, root, _, _ := startVault(t)
	wrapped := wrap(t, root, bytes.Repeat([]byte{7}, 32))
	server.Call(t, http.MethodPut, "sys/policies/acl/any", map[string]any{"policy": `path "*" { capabilities = ["update"] }`}, nil)
	file := write(t, server.Token(t, "any", time.Hour))
	for _, path := range []string{"/v1/team/transit/keys/absent", "/v1/absent/keys/leat"} {
		missing := newVault(t, keyroot.VaultParams{URL: server.URL + path, TokenFile: file})
		if got, err := missing.Unwrap(t.Context(), wrapped, "a"); err == nil || errors.Is(err, keyroot.ErrUnavailable) || got != nil {
			t.Errorf("%s: got %v, want a permanent error", path, err)
		}
	}
}

func wrap(t *testing.T, root keyroot.Root, key []byte) []byte {
	t.Helper()
	wrapped, err := root.Wrap(t.Context(), key, "a")
	if err != nil {
		t.Fatal(err)
	}
	return wrapped
}

func unwrapped(t *testing.T, root keyroot.Root, wrapped, want []byte) {
	t.Helper()
	if got, err := root.Unwrap(t.Context(), wrapped, "a"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("unwrap: got %x, %v, want the key", got, err)
	}
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
