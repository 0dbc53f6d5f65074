// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package keyroot_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/leatdev/leat/internal/kit/seal"
	"github.com/leatdev/leat/services/distributor/internal/keys/keyroot"
)

const (
	vaultToken = "hvs.the-token-of-this-test"
	podProof   = "the.token.of-the-pod"
)

// transit is the part of Vault's HTTP API that a root uses, as strict as Vault is: methods, paths,
// bodies and tokens are judged by its documentation.
type transit struct {
	*httptest.Server

	mu     sync.Mutex
	token  string // the one that is accepted
	answer http.HandlerFunc
	calls  int
}

func startTransit(t *testing.T) *transit {
	t.Helper()
	sealer, err := seal.NewSealer(bytes.Repeat([]byte("v"), 32), "transit")
	if err != nil {
		t.Fatal(err)
	}
	v := &transit{token: vaultToken}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/auth/kubernetes/login", func(w http.ResponseWriter, r *http.Request) {
		body := decode(r, "role", "jwt")
		if body["role"] != "leat" || body["jwt"] != podProof {
			refuse(w, http.StatusForbidden, "permission denied")
			return
		}
		reply(w, "auth", map[string]any{"client_token": vaultToken, "renewable": true})
	})
	mux.HandleFunc("POST /v1/team/transit/{verb}/{key}", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Vault-Token") != v.accepted() {
			refuse(w, http.StatusForbidden, "permission denied")
			return
		}
		key := []byte(r.PathValue("key"))
		switch r.PathValue("verb") {
		case "encrypt":
			plain, err := base64.StdEncoding.DecodeString(decode(r, "plaintext")["plaintext"])
			if err != nil {
				refuse(w, http.StatusBadRequest, "failed to base64-decode plaintext")
				return
			}
			sealed, err := sealer.Seal(plain, key)
			if err != nil {
				refuse(w, http.StatusInternalServerError, "internal error")
				return
			}
			reply(w, "data", map[string]any{"ciphertext": "vault:v1:" + base64.StdEncoding.EncodeToString(sealed), "key_version": 1})
		case "decrypt":
			sealed, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(decode(r, "ciphertext")["ciphertext"], "vault:v1:"))
			plain, err2 := sealer.Open(sealed, key)
			if err != nil || err2 != nil {
				refuse(w, http.StatusBadRequest, "cipher: message authentication failed")
				return
			}
			reply(w, "data", map[string]any{"plaintext": base64.StdEncoding.EncodeToString(plain)})
		default:
			refuse(w, http.StatusNotFound, "")
		}
	})
	v.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		v.calls++
		answer := v.answer
		v.mu.Unlock()
		if answer != nil {
			answer(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(v.Close)
	return v
}

func (v *transit) accepted() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.token
}

func (v *transit) set(token string, answer http.HandlerFunc) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.token, v.answer = token, answer
}

// decode reads a body that has exactly the fields, or returns nothing.
func decode(r *http.Request, fields ...string) map[string]string {
	var body map[string]string
	if json.NewDecoder(r.Body).Decode(&body) != nil || len(body) != len(fields) {
		return nil
	}
	return body
}

func refuse(w http.ResponseWriter, code int, text string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []string{text}})
}

func reply(w http.ResponseWriter, field string, value any) {
	_ = json.NewEncoder(w).Encode(map[string]any{"request_id": rand.Text(), "lease_id": "", field: value})
}

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (v *transit) params(t *testing.T, key string) keyroot.VaultParams {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: v.Certificate().Raw})
	return keyroot.VaultParams{URL: v.URL + "/v1/team/transit/keys/" + key, TokenFile: write(t, vaultToken+"\n"), CAPEM: ca}
}

func newVault(t *testing.T, p keyroot.VaultParams) *keyroot.Vault {
	t.Helper()
	root, err := keyroot.NewVault(p)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestVault(t *testing.T) {
	t.Parallel()
	server := startTransit(t)
	conformance(t, newVault(t, server.params(t, "leat")), newVault(t, server.params(t, "other")))

	pod := server.params(t, "leat")
	pod.TokenFile, pod.Role, pod.ServiceAccountTokenFile = "", "leat", write(t, podProof)
	conformance(t, newVault(t, pod), newVault(t, server.params(t, "other")))
	if got := newVault(t, pod).Name(); got != "vault/team/transit/leat" {
		t.Errorf("got name %q", got)
	}
}

// TestVaultReadsRenewedTokens has an agent renew the token in its file.
func TestVaultReadsRenewedTokens(t *testing.T) {
	t.Parallel()
	server := startTransit(t)
	params := server.params(t, "leat")
	root := newVault(t, params)
	server.set("hvs.renewed", nil)
	if _, err := root.Wrap(t.Context(), []byte("key"), "a"); !errors.Is(err, keyroot.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, keyroot.ErrUnavailable)
	}
	if err := os.WriteFile(params.TokenFile, []byte("hvs.renewed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := root.Wrap(t.Context(), []byte("key"), "a"); err != nil {
		t.Errorf("with the renewed token: %v", err)
	}
}

// TestSecVaultAnswersAreBounded has a hostile or broken server answer. No token and no key goes
// elsewhere, no answer fills the memory, and no error contains the token or the key.
func TestSecVaultAnswersAreBounded(t *testing.T) {
	t.Parallel()
	server := startTransit(t)
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	root := newVault(t, server.params(t, "leat"))
	key := []byte("the-key-that-nobody-may-see-here")
	wrapped, err := root.Wrap(t.Context(), key, "a")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   error
	}{
		"sealed": {func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusServiceUnavailable, "Vault is sealed")
		}, keyroot.ErrUnavailable},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, nil},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"data": {"plaintext": "`))
			for range 1 << 12 {
				if _, err := w.Write(bytes.Repeat([]byte("A"), 1<<10)); err != nil {
					return
				}
			}
		}, keyroot.ErrUnavailable},
		"not JSON":     {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, keyroot.ErrUnavailable},
		"empty object": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }, keyroot.ErrRefused},
		"no such key":  {func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, "") }, nil},
		"key echoed":   {func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusInternalServerError, string(key)) }, keyroot.ErrUnavailable},
	} {
		server.set(vaultToken, test.answer)
		got, err := root.Unwrap(t.Context(), wrapped, "a")
		if err == nil || got != nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
			continue
		}
		if strings.Contains(err.Error(), vaultToken) || strings.Contains(err.Error(), string(key)) {
			t.Errorf("%s: the error %q contains a secret", name, err)
		}
	}
	server.Close()
	if _, err := root.Unwrap(t.Context(), wrapped, "a"); !errors.Is(err, keyroot.ErrUnavailable) {
		t.Errorf("gone: got %v, want %v", err, keyroot.ErrUnavailable)
	}
}

func TestNewVaultRefuses(t *testing.T) {
	t.Parallel()
	good := keyroot.VaultParams{URL: "https://vault:8200/v1/transit/keys/leat", TokenFile: "token"}
	newVault(t, good)
	for name, change := range map[string]func(*keyroot.VaultParams){
		"plain HTTP":     func(p *keyroot.VaultParams) { p.URL = "http://vault:8200/v1/transit/keys/leat" },
		"a password":     func(p *keyroot.VaultParams) { p.URL = "https://u:p@vault:8200/v1/transit/keys/leat" },
		"no key":         func(p *keyroot.VaultParams) { p.URL = "https://vault:8200/v1/transit" },
		"dots":           func(p *keyroot.VaultParams) { p.URL = "https://vault:8200/v1/../keys/leat" },
		"a query":        func(p *keyroot.VaultParams) { p.URL += "?x=1" },
		"no credential":  func(p *keyroot.VaultParams) { p.TokenFile = "" },
		"both":           func(p *keyroot.VaultParams) { p.Role = "leat" },
		"no certificate": func(p *keyroot.VaultParams) { p.CAPEM = []byte("not PEM") },
	} {
		p := good
		change(&p)
		if _, err := keyroot.NewVault(p); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	for name, token := range map[string]string{"empty": "", "two lines": "a\nb", "huge": strings.Repeat("x", 20<<10)} {
		p := good
		p.TokenFile = write(t, token)
		if _, err := newVault(t, p).Wrap(t.Context(), []byte("key"), "a"); !errors.Is(err, keyroot.ErrUnavailable) {
			t.Errorf("token %s: got %v, want %v", name, err, keyroot.ErrUnavailable)
		}
	}
}
