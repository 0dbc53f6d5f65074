// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/settings"
)

// tokenServer is a hub's endpoint for exchanges, and GitHub's for the tokens of jobs.
type tokenServer struct {
	url       string
	exchanges int
	refusal   string
}

func startTokenServer(t *testing.T) *tokenServer {
	t.Helper()
	s := &tokenServer{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /oauth/token", func(w http.ResponseWriter, r *http.Request) {
		s.exchanges++
		if s.refusal != "" {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_request", "error_description": s.refusal})
			return
		}
		token := strings.Join([]string{r.PostFormValue("subject_token"), r.PostFormValue("audience"), r.PostFormValue("trust_rule")}, " ")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 600})
	})
	mux.HandleFunc("GET /github", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer runner" || r.URL.Query().Get("v") != "2" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"value": "job-for-" + r.URL.Query().Get("audience")})
	})
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// TestWorkloadTokens obtains access tokens by a file, a variable and GitHub, and keeps them for their
// owner alone.
func TestWorkloadTokens(t *testing.T) {
	t.Parallel()
	s := startTokenServer(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte("from-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"JOB": "from-a-variable", "ACTIONS_ID_TOKEN_REQUEST_URL": s.url + "/github?v=2", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner"}
	lookup := func(name string) (string, bool) { value, ok := env[name]; return value, ok }
	for name, tc := range map[string]struct {
		source settings.Workload
		want   string
	}{
		"file":     {settings.Workload{TokenFile: file, Rule: "ci"}, "from-a-file tunnel ci"},
		"variable": {settings.Workload{TokenEnv: "JOB"}, "from-a-variable tunnel "},
		"github":   {settings.Workload{}, "job-for-" + s.url + " tunnel "},
		"audience": {settings.Workload{Audience: "leat"}, "job-for-leat tunnel "},
	} {
		cache := filepath.Join(dir, "sessions", name+".json")
		w, err := client.OpenWorkload(tc.source, cache, lookup, client.Params{Server: s.url})
		if err != nil {
			t.Fatal(err)
		}
		before := s.exchanges
		for range 2 {
			if got, err := w.AccessToken(t.Context(), "tunnel"); err != nil || got.Token != tc.want {
				t.Errorf("%s: got %+v, %v, want %q", name, got, err, tc.want)
			}
		}
		if s.exchanges != before+1 {
			t.Errorf("%s: got %d exchanges, want the second token from the file", name, s.exchanges-before)
		}
		if info, err := os.Stat(cache); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got %v, %v, want a file for its owner alone", name, info, err)
		}
	}
	for name, source := range map[string]settings.Workload{
		"no file": {TokenFile: filepath.Join(dir, "none")}, "no variable": {TokenEnv: "NONE"},
	} {
		w, err := client.OpenWorkload(source, "", lookup, client.Params{Server: s.url})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.AccessToken(t.Context(), "tunnel"); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	env["ACTIONS_ID_TOKEN_REQUEST_TOKEN"] = "expired"
	w, err := client.OpenWorkload(settings.Workload{}, "", lookup, client.Params{Server: s.url})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.AccessToken(t.Context(), "tunnel"); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("refused by GitHub: got %v", err)
	}
	s.refusal = "trust rule ci refuses the token"
	w, err = client.OpenWorkload(settings.Workload{TokenFile: file}, "", lookup, client.Params{Server: s.url})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.AccessToken(t.Context(), "tunnel"); err == nil || !strings.Contains(err.Error(), s.refusal) {
		t.Errorf("refused by the hub: got %v, want its words", err)
	}
}
