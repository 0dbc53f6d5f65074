// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package localgit serves bare repositories over smart HTTP on one machine, for reading and for
// pushing, with the installed git. It requires no password, so it is for the loopback interface, and
// for networks of containers on one machine.
package localgit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// maxPush bounds one push.
const maxPush = 256 << 20

// ErrNoGit means that git is not installed.
var ErrNoGit = errors.New("the git command was not found")

// Params are the settings of a Server.
type Params struct {
	Dir    string                                 // holds the repositories, NAME.git each
	Hosts  []string                               // names that callers may use, besides the loopback interface's
	OnPush func(ctx context.Context, name string) // called after each push, before the push is answered
	Logger *slog.Logger
}

// Server serves repositories. It is safe for concurrent use.
type Server struct {
	Params

	git string
}

// New returns a server. It starts nothing.
func New(p Params) (*Server, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, ErrNoGit
	}
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder for repositories: %w", err)
	}
	return &Server{Params: p, git: git}, nil
}

// environment excludes the configuration of the machine and of the user: hooks, signing, credential
// helpers. safe.directory is set because the repositories may belong to another user if folders are
// mounted into a container.
func (s *Server) environment() []string {
	return []string{
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=safe.directory",
		"GIT_CONFIG_VALUE_0=*",
		"GIT_TERMINAL_PROMPT=0",
	}
}

// Ensure creates the repository name with one commit of content on the branch main, unless it
// exists.
func (s *Server) Ensure(ctx context.Context, name string, content fs.FS) error {
	path := s.path(name)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	work, err := os.MkdirTemp(s.Dir, ".making-")
	if err != nil {
		return fmt.Errorf("make repository %s: %w", name, err)
	}
	defer func() { _ = os.RemoveAll(work) }() // at worst a folder remains that is not served
	if err := s.create(ctx, work, content); err != nil {
		return fmt.Errorf("make repository %s: %w", name, err)
	}
	if err := os.Rename(filepath.Join(work, "bare.git"), path); err != nil {
		return fmt.Errorf("make repository %s: %w", name, err)
	}
	return nil
}

func (s *Server) path(name string) string { return filepath.Join(s.Dir, name+".git") }

func (s *Server) create(ctx context.Context, work string, content fs.FS) error {
	bare, tree := filepath.Join(work, "bare.git"), filepath.Join(work, "tree")
	if err := os.CopyFS(tree, content); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main", bare},
		{"--git-dir", bare, "config", "http.receivepack", "true"},
		{"--git-dir", bare, "--work-tree", tree, "add", "--all"},
		{"--git-dir", bare, "--work-tree", tree, "commit", "--quiet", "--message", "A page, served by two pods"},
	} {
		if err := s.run(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, s.git, args...)
	cmd.Env = append(s.environment(), "PATH="+filepath.Dir(s.git),
		"GIT_AUTHOR_NAME=Leat", "GIT_AUTHOR_EMAIL=demo@leat.dev", "GIT_COMMITTER_NAME=Leat", "GIT_COMMITTER_EMAIL=demo@leat.dev")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.isOwn(r.Host) {
		// A web page in a browser on this machine must not reach the repositories under a host name
		// of its own.
		http.Error(w, "only for this machine", http.StatusForbidden)
		return
	}
	if err := bufferBody(w, r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := &recorder{ResponseWriter: w, status: http.StatusOK}
	handler := cgi.Handler{
		Path:   s.git,
		Args:   []string{"http-backend"},
		Env:    append(s.environment(), "GIT_PROJECT_ROOT="+s.Dir, "GIT_HTTP_EXPORT_ALL=1"),
		Stderr: &logWriter{s.Logger},
		Logger: slog.NewLogLogger(s.Logger.Handler(), slog.LevelWarn),
	}
	handler.ServeHTTP(answer, r)
	if name, ok := pushed(r); ok && answer.status == http.StatusOK && s.OnPush != nil {
		s.OnPush(r.Context(), name)
	}
}

// isOwn reports whether a request's host names this server.
func (s *Server) isOwn(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback() || slices.Contains(s.Hosts, host)
}

// bufferBody buffers a body of unknown length: CGI programs need the length beforehand, and git
// sends pushes of more than a megabyte in chunks.
func bufferBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength >= 0 {
		return nil
	}
	f, err := os.CreateTemp("", "leat-push-")
	if err != nil {
		return fmt.Errorf("store push: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil { // the file is removed when it is closed
		return errors.Join(err, f.Close())
	}
	length, err := io.Copy(f, http.MaxBytesReader(w, r.Body, maxPush))
	if err != nil {
		return errors.Join(fmt.Errorf("read push: %w", err), f.Close())
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return errors.Join(fmt.Errorf("read push: %w", err), f.Close())
	}
	context.AfterFunc(r.Context(), func() { _ = f.Close() })
	r.Body, r.ContentLength, r.TransferEncoding = f, length, nil
	return nil
}

// pushed returns the repository to which a request has pushed.
func pushed(r *http.Request) (name string, ok bool) {
	path, isPush := strings.CutSuffix(r.URL.Path, "/git-receive-pack")
	if !isPush || r.Method != http.MethodPost {
		return "", false
	}
	return strings.TrimSuffix(strings.TrimPrefix(path, "/"), ".git"), true
}

// recorder records the status of an answer.
type recorder struct {
	http.ResponseWriter

	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap allows http.ResponseController to reach the writer below.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// logWriter logs git's standard error.
type logWriter struct{ logger *slog.Logger }

func (l *logWriter) Write(p []byte) (int, error) {
	l.logger.WarnContext(context.Background(), "git said", slog.String("text", strings.TrimSpace(string(p))))
	return len(p), nil
}
