// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package gittest serves real Git repositories to a test: smart HTTP by git's own http-backend, SSH
// by git's own upload-pack and receive-pack. It counts the fetches of each repository and their
// concurrency, and fails or slows down on demand.
//
//	server := gittest.New(t)
//	repo := server.Repo(t, "demo")
//	commit := repo.Commit(t, "main", map[string]string{"app/service.yaml": "…"})
//	clone(repo.URL())
package gittest

import (
	"context"
	"crypto"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
)

// Server serves the repositories of one test over HTTP, or HTTPS, and SSH, each on a loopback port
// that stays the same over Stop and Start. It ends with the test. All methods may be called
// concurrently; methods with t fail that test.
type Server struct {
	git     string                  // the program
	backend string                  // git-http-backend
	root    string                  // holds the bare repositories
	home    string                  // an empty home folder for every git process
	tls     *selfsigned.Certificate // nil: plain HTTP
	ssh     *sshKeys

	mu        sync.Mutex
	httpAddr  string // empty until first started
	sshAddr   string
	stop      func() // nil while stopped
	user      string
	password  string
	intercept func(http.ResponseWriter, *http.Request) bool
	cut       int // bytes; 0: nothing is cut
	stats     map[string]*Stats
	lfs       map[string]*LFS
}

// Option changes a Server before it starts.
type Option func(t testing.TB, s *Server)

// WithBasicAuth makes HTTP require this user and password; see also [Server.SetBasicAuth].
func WithBasicAuth(user, password string) Option {
	return func(_ testing.TB, s *Server) { s.user, s.password = user, password }
}

// WithTLS makes the HTTP side HTTPS, with a certificate that [Server.CertificatePEM] returns.
func WithTLS() Option {
	return func(t testing.TB, s *Server) {
		t.Helper()
		certificate := selfsigned.New(t)
		s.tls = &certificate
	}
}

// WithSSHHostKey makes the SSH side present this key instead of a generated one.
func WithSSHHostKey(key crypto.Signer) Option {
	return func(t testing.TB, s *Server) {
		t.Helper()
		signer, err := ssh.NewSignerFromSigner(key)
		if err != nil {
			t.Fatalf("use SSH host key: %v", err)
		}
		s.ssh.host = signer
	}
}

// New starts a server without repositories. If git is missing the test fails.
func New(t testing.TB, options ...Option) *Server {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal("git is not installed: run `make tools` or `apt-get install git`")
	}
	s := &Server{git: git, root: t.TempDir(), home: t.TempDir(), ssh: newSSHKeys(t), stats: make(map[string]*Stats), lfs: make(map[string]*LFS)}
	execPath, err := s.run(t.Context(), "", nil, "--exec-path")
	if err != nil {
		t.Fatalf("find git-http-backend: %v", err)
	}
	s.backend = filepath.Join(strings.TrimSpace(execPath), "git-http-backend")
	for _, option := range options {
		option(t, s)
	}
	t.Cleanup(s.Stop)
	s.Start(t)
	return s
}

// Start begins to serve, on the same addresses as before a Stop. It does nothing if the server
// runs.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		return
	}
	web, err := listen(t, &s.httpAddr)
	if err != nil {
		t.Fatalf("start git server: %v", err)
	}
	shell, err := listen(t, &s.sshAddr)
	if err != nil {
		_ = web.Close()
		t.Fatalf("start git server: %v", err)
	}
	stopHTTP, stopSSH := s.serveHTTP(web), s.serveSSH(shell)
	s.stop = func() {
		stopHTTP()
		stopSSH()
	}
}

// Stop ends all connections at once and refuses new ones, like an upstream that is down. The
// repositories stay.
func (s *Server) Stop() {
	s.mu.Lock()
	stop := s.stop
	s.stop = nil
	s.mu.Unlock()
	if stop != nil {
		stop() // unlocked, because ending requests take the lock
	}
}

// listen listens at the address, which is chosen the first time.
func listen(t testing.TB, addr *string) (net.Listener, error) {
	t.Helper()
	var config net.ListenConfig
	if *addr != "" {
		return config.Listen(context.Background(), "tcp", *addr)
	}
	const tries = 10 // another process may have taken a port that was free a moment ago
	var err error
	for range tries {
		var listener net.Listener
		chosen := loopback.Addr(t)
		if listener, err = config.Listen(context.Background(), "tcp", chosen); err == nil {
			*addr = chosen
			return listener, nil
		}
	}
	return nil, err
}

// URL returns the root of all repositories, without a slash at its end: http://127.0.0.1:PORT or
// https://….
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tls != nil {
		return "https://" + s.httpAddr
	}
	return "http://" + s.httpAddr
}

// SSHAddr returns the host:port of the SSH side.
func (s *Server) SSHAddr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sshAddr
}

// CertificatePEM returns the certificate to trust with [WithTLS], and nil without it.
func (s *Server) CertificatePEM() []byte {
	if s.tls == nil {
		return nil
	}
	return s.tls.PEM
}

// SetBasicAuth makes HTTP require this user and password from now on. An empty user requires none.
// Changing them revokes the old credentials.
func (s *Server) SetBasicAuth(user, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user, s.password = user, password
}

// Intercept passes every HTTP request to handle first, after authentication. If handle
// returns true it has answered, for instance with a 429 and Retry-After. Nil ends it.
func (s *Server) Intercept(handle func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = handle
}

// CutFetches breaks the connection after that many bytes of each answer to a request for objects
// over HTTP; 0 ends it.
func (s *Server) CutFetches(after int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = after
}
