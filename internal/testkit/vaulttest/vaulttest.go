// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package vaulttest runs a Vault for the slow tests: the real core with the transit and key-value
// engines and AppRole, on a loopback port, with what it stores in a folder of the test. It is
// compiled once; see tools/vault.
package vaulttest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/program"
)

// Server is a Vault that can be stopped, started again, sealed and unsealed. It ends with the test.
// Its methods are for one goroutine.
type Server struct {
	// URL is its root, without a slash at its end.
	URL string

	program, folder string
	running         *program.Program
	root, unseal    string
}

// Start runs a Vault, compiles it first if necessary, and returns once it serves.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{URL: "http://" + loopback.Addr(t), program: program.Build(t, "vault"), folder: t.TempDir()}
	s.Restart(t)
	var secrets struct{ Token, Unseal string }
	content, err := os.ReadFile(filepath.Join(s.folder, "secrets.json"))
	if err == nil {
		err = json.Unmarshal(content, &secrets)
	}
	if err != nil {
		t.Fatalf("read what opens Vault: %v", err)
	}
	s.root, s.unseal = secrets.Token, secrets.Unseal
	return s
}

// Restart starts a Vault that was stopped, at the same address, with what it had stored. It returns
// once it serves, unsealed.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	command := exec.CommandContext(context.WithoutCancel(t.Context()), s.program, "-listen", strings.TrimPrefix(s.URL, "http://"), "-folder", s.folder)
	s.running = program.Start(t, command)
	s.running.Await(t, func() bool {
		status, _ := s.try(t.Context(), "", http.MethodGet, "sys/health", nil)
		return status == http.StatusOK
	})
}

// Stop kills Vault.
func (s *Server) Stop() { s.running.End(syscall.SIGKILL) }

// Seal makes Vault forget the key to what it has stored.
func (s *Server) Seal(t testing.TB) {
	t.Helper()
	s.Call(t, http.MethodPut, "sys/seal", nil, nil)
}

// Unseal ends that.
func (s *Server) Unseal(t testing.TB) {
	t.Helper()
	s.Call(t, http.MethodPut, "sys/unseal", map[string]any{"key": s.unseal}, nil)
}

// Call makes one call of the API as root, such as PUT sys/policy/leat, and reads the answer into
// answer unless that is nil.
func (s *Server) Call(t testing.TB, method, path string, body, answer any) {
	t.Helper()
	status, content := s.try(t.Context(), s.root, method, path, body)
	if status != http.StatusOK && status != http.StatusNoContent {
		t.Fatalf("%s %s: got status %d: %s", method, path, status, content)
	}
	if answer == nil {
		return
	}
	if err := json.Unmarshal([]byte(content), answer); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}

// Token returns a token with one policy, for as long as the period and as often as it is renewed.
func (s *Server) Token(t testing.TB, policy string, period time.Duration) string {
	t.Helper()
	var answer struct {
		Auth struct {
			ClientToken string `json:"client_token"`
		} `json:"auth"`
	}
	s.Call(t, http.MethodPost, "auth/token/create", map[string]any{"policies": []string{policy}, "period": period.String(), "no_parent": true}, &answer)
	return answer.Auth.ClientToken
}

// Revoke ends a token.
func (s *Server) Revoke(t testing.TB, token string) {
	t.Helper()
	s.Call(t, http.MethodPost, "auth/token/revoke", map[string]any{"token": token}, nil)
}

// try calls the API; status 0 means that there was no answer.
func (s *Server) try(ctx context.Context, token, method, path string, body any) (status int, answer string) {
	content, err := json.Marshal(body)
	if err != nil {
		return 0, err.Error()
	}
	request, err := http.NewRequestWithContext(ctx, method, s.URL+"/v1/"+path, bytes.NewReader(content))
	if err != nil {
		return 0, err.Error()
	}
	request.Header.Set("X-Vault-Token", token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}
