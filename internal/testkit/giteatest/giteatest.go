// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package giteatest runs a Gitea for the slow tests: a whole Git host with users, private
// repositories, HTTP and SSH, on loopback ports and with an empty database. It is compiled once;
// see tools/gitea.
package giteatest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/program"
)

// Server is a running Gitea with two users. Only the first may see repositories. It ends
// with the test.
type Server struct {
	// URL is its root, without a slash at its end.
	URL string
	// SSHAddr is the host:port of its SSH side.
	SSHAddr string
	// Owner owns the repositories that [Server.Repository] makes, and Stranger may see none of
	// them.
	Owner, Stranger Account

	program, work string
}

// Account is a user with an access token, which also works as a password.
type Account struct{ Name, Token string }

// sshUser is the SSH user for every login.
const sshUser = "git"

// tokens matches an access token on its line. Gitea prints warnings to the same output.
var tokens = regexp.MustCompile(`(?m)^[0-9a-f]{40}$`)

// password is every user's. Only the API for access tokens wants it, the rest takes a token.
const password = "for the API of tokens"

const config = `APP_NAME = giteatest
RUN_USER = %[1]s
RUN_MODE = prod
WORK_PATH = %[2]s
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true

[server]
PROTOCOL = http
HTTP_ADDR = 127.0.0.1
HTTP_PORT = %[3]s
ROOT_URL = http://127.0.0.1:%[3]s/
STATIC_ROOT_PATH = %[5]s
OFFLINE_MODE = true
START_SSH_SERVER = true
BUILTIN_SSH_SERVER_USER = git
SSH_LISTEN_HOST = 127.0.0.1
SSH_LISTEN_PORT = %[4]s
SSH_DOMAIN = 127.0.0.1
SSH_PORT = %[4]s

[database]
DB_TYPE = sqlite3
PATH = %[2]s/gitea.db

[security]
INSTALL_LOCK = true
SECRET_KEY = for-a-test-only
INTERNAL_TOKEN = eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJuYmYiOjE3NjcyMjU2MDB9.UFrm9eCQOGTvqpvuPKKcc5sZ2ifR2MT8RdPfZqXFuF8

[log]
LEVEL = Warn
MODE = console

[webhook]
ALLOWED_HOST_LIST = loopback

[actions]
ENABLED = false

[cron]
ENABLED = false

[indexer]
ISSUE_INDEXER_TYPE = db

[service]
DISABLE_REGISTRATION = true
`

// Start runs a Gitea, compiles it first if necessary, and returns once it serves both users.
func Start(t testing.TB) *Server {
	t.Helper()
	home := program.Build(t, "gitea")
	who, err := user.Current()
	if err != nil {
		t.Fatalf("find user: %v", err)
	}
	web, shell := loopback.Addr(t), loopback.Addr(t)
	s := &Server{URL: "http://" + web, SSHAddr: shell, program: filepath.Join(home, "gitea"), work: t.TempDir()}
	port := func(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }
	ini := fmt.Sprintf(config, who.Username, s.work, port(web), port(shell), home)
	if err := os.WriteFile(filepath.Join(s.work, "app.ini"), []byte(ini), 0o600); err != nil {
		t.Fatal(err)
	}
	s.gitea(t, "migrate")
	s.Owner, s.Stranger = s.user(t, "owner"), s.user(t, "stranger")
	gitea := program.Start(t, s.command(context.WithoutCancel(t.Context()), "web"))
	gitea.Await(t, func() bool {
		return s.Try(t.Context(), s.Owner, http.MethodGet, "/api/v1/user", nil, nil) == nil &&
			s.Try(t.Context(), s.Stranger, http.MethodGet, "/api/v1/user", nil, nil) == nil
	})
	return s
}

func (s *Server) command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, s.program, append(args, "--config", filepath.Join(s.work, "app.ini"))...)
	command.Dir = s.work
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.work, "GITEA_WORK_DIR=" + s.work, "GIT_CONFIG_NOSYSTEM=1"}
	return command
}

// gitea runs a gitea command, and returns its output.
func (s *Server) gitea(t testing.TB, args ...string) string {
	t.Helper()
	out, err := s.command(t.Context(), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("gitea %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (s *Server) user(t testing.TB, name string) Account {
	t.Helper()
	s.gitea(t, "admin", "user", "create", "--username", name, "--email", name+"@leat.invalid", "--password", password,
		"--must-change-password=false")
	out := s.gitea(t, "admin", "user", "generate-access-token", "--username", name, "--token-name", "test", "--scopes", "all", "--raw")
	token := tokens.FindString(out)
	if token == "" {
		t.Fatalf("got no access token of %s: %s", name, out)
	}
	return Account{Name: name, Token: token}
}

// Token makes another access token of an account, which may do what its scopes name, such as
// "write:repository".
func (s *Server) Token(t testing.TB, of Account, scopes ...string) Account {
	t.Helper()
	var made struct {
		SHA1 string `json:"sha1"`
	}
	s.Call(t, Account{of.Name, password}, http.MethodPost, "/api/v1/users/"+of.Name+"/tokens",
		map[string]any{"name": strings.Join(scopes, " "), "scopes": scopes}, &made)
	return Account{of.Name, made.SHA1}
}

// Repository makes an empty private repository with the default branch main, and returns its path:
// "owner/name".
func (s *Server) Repository(t testing.TB, name string) string {
	t.Helper()
	s.Call(t, s.Owner, http.MethodPost, "/api/v1/user/repos", map[string]any{"name": name, "private": true, "default_branch": "main"}, nil)
	return s.Owner.Name + "/" + name
}

// AddKey permits a public key, in the form of a line of authorized_keys, to log in as that user.
func (s *Server) AddKey(t testing.TB, of Account, line string) {
	t.Helper()
	s.Call(t, of, http.MethodPost, "/api/v1/user/keys", map[string]any{"title": "test", "key": strings.TrimSpace(line)}, nil)
}

// AddWebhook makes a repository notify target of events, such as "push", signed with the secret.
func (s *Server) AddWebhook(t testing.TB, repository, target, secret string, events ...string) {
	t.Helper()
	s.Call(t, s.Owner, http.MethodPost, "/api/v1/repos/"+repository+"/hooks", map[string]any{
		"type": "gitea", "active": true, "events": events,
		"config": map[string]string{"url": target, "content_type": "json", "secret": secret},
	}, nil)
}

// Status is the status of a commit.
type Status struct {
	Context, Status, Description string
}

// Statuses returns the statuses of a commit, the oldest first.
func (s *Server) Statuses(t testing.TB, repository, commit string) []Status {
	t.Helper()
	var statuses []Status
	s.Call(t, s.Owner, http.MethodGet, "/api/v1/repos/"+repository+"/commits/"+commit+"/statuses?sort=oldest", nil, &statuses)
	return statuses
}

// CloneURL returns the repository's URL over HTTP. With an account it holds that account's token,
// for a push.
func (s *Server) CloneURL(repository string, as Account) string {
	root := s.URL
	if as != (Account{}) {
		root = strings.Replace(root, "://", "://"+as.Name+":"+as.Token+"@", 1)
	}
	return root + "/" + repository + ".git"
}

// SSHURL returns the repository's URL over SSH.
func (s *Server) SSHURL(repository string) string {
	return "ssh://" + sshUser + "@" + s.SSHAddr + "/" + repository + ".git"
}

// Call calls the API as an account, and reads the answer into answer unless that is nil. It fails
// the test unless the call succeeds.
func (s *Server) Call(t testing.TB, as Account, method, path string, body, answer any) {
	t.Helper()
	if err := s.Try(t.Context(), as, method, path, body, answer); err != nil {
		t.Fatal(err)
	}
}

// Try is Call for a call that may fail. The error has the status and the answer.
func (s *Server) Try(ctx context.Context, as Account, method, path string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.SetBasicAuth(as.Name, as.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode < 200 || resp.StatusCode > 299) {
		return fmt.Errorf("%s %s: got status %d: %s", method, path, resp.StatusCode, text)
	}
	if err == nil && answer != nil {
		err = json.Unmarshal(text, answer)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}
