// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gittest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gliderlabs/ssh"
	gossh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// sshKeys are the server's own key and the only client key that it accepts.
type sshKeys struct {
	host      gossh.Signer
	client    gossh.PublicKey
	clientPEM []byte
}

func newSSHKeys(t testing.TB) *sshKeys {
	t.Helper()
	_, hostKey, errHost := ed25519.GenerateKey(rand.Reader)
	_, clientKey, errClient := ed25519.GenerateKey(rand.Reader)
	if err := errors.Join(errHost, errClient); err != nil {
		t.Fatalf("make SSH keys: %v", err)
	}
	host, errHost := gossh.NewSignerFromKey(hostKey)
	client, errClient := gossh.NewSignerFromKey(clientKey)
	block, errPEM := gossh.MarshalPrivateKey(clientKey, "gittest")
	if err := errors.Join(errHost, errClient, errPEM); err != nil {
		t.Fatalf("make SSH keys: %v", err)
	}
	return &sshKeys{host: host, client: client.PublicKey(), clientPEM: pem.EncodeToMemory(block)}
}

// SSHPrivateKey returns the client key for SSH, in OpenSSH's PEM form without a passphrase. The
// user is "git".
func (s *Server) SSHPrivateKey() []byte {
	return s.ssh.clientPEM
}

// SSHKnownHosts returns the line of a known_hosts file that names this server and its key.
func (s *Server) SSHKnownHosts() string {
	return knownhosts.Line([]string{knownhosts.Normalize(s.SSHAddr())}, s.ssh.host.PublicKey()) + "\n"
}

// serveSSH serves until the returned function is called, which closes every connection.
func (s *Server) serveSSH(listener net.Listener) (stop func()) {
	server := &ssh.Server{
		Handler: s.handleSSH,
		PublicKeyHandler: func(_ ssh.Context, key ssh.PublicKey) bool {
			return ssh.KeysEqual(key, s.ssh.client)
		},
	}
	server.AddHostKey(s.ssh.host)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ssh.ErrServerClosed
	}()
	return func() {
		_ = server.Close()
		_ = listener.Close() // if Serve has not begun yet, Close does not close the listener
		<-done
	}
}

func (s *Server) handleSSH(session ssh.Session) {
	if s.authenticateLFS(session) {
		_ = session.Exit(0)
		return
	}
	service, name, err := s.parseCommand(session.Command())
	if err != nil {
		_, _ = fmt.Fprintln(session.Stderr(), err)
		_ = session.Exit(128)
		return
	}
	k := kindFetch
	if service == "receive-pack" {
		k = kindPush
	}
	defer s.begin(name, k)()
	if err := s.serveSession(session, service, name); err != nil {
		_ = session.Exit(1)
		return
	}
	_ = session.Exit(0)
}

// parseCommand parses "git-upload-pack '/demo.git'", already split into words, and accepts only the
// two services and existing repositories.
func (s *Server) parseCommand(words []string) (service, name string, err error) {
	if len(words) != 2 {
		return "", "", errors.New("want a git command with one repository")
	}
	switch words[0] {
	case "git-upload-pack", "git-receive-pack":
		service = strings.TrimPrefix(words[0], "git-")
	default:
		return "", "", fmt.Errorf("unknown command %q", words[0])
	}
	name = strings.TrimSuffix(strings.TrimPrefix(words[1], "/"), ".git")
	if !filepath.IsLocal(name) {
		return "", "", fmt.Errorf("no repository %q", words[1])
	}
	if _, err := os.Stat(s.dir(name)); err != nil {
		return "", "", fmt.Errorf("no repository %q", words[1])
	}
	return service, name, nil
}

func (s *Server) serveSession(session ssh.Session, service, name string) error {
	command := exec.CommandContext(session.Context(), s.git, service, s.dir(name))
	command.Env = s.environment()
	for _, variable := range session.Environ() {
		if strings.HasPrefix(variable, "GIT_PROTOCOL=") {
			command.Env = append(command.Env, variable)
		}
	}
	command.Stdout, command.Stderr = session, session.Stderr()
	// Use our own pipe, because Wait would wait for the end of Stdin, and a client may keep its
	// side open until it sees our exit.
	stdin, err := command.StdinPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(stdin, session) // ends with the session at the latest
		_ = stdin.Close()
	}()
	return command.Wait()
}

// run runs git and returns its output. dir may be empty.
func (s *Server) run(ctx context.Context, dir string, stdin io.Reader, args ...string) (string, error) {
	command := exec.CommandContext(ctx, s.git, args...)
	command.Dir, command.Stdin, command.Env = dir, stdin, s.environment()
	var complaint strings.Builder
	command.Stderr = &complaint
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return string(out), nil
}

// environment excludes the machine's and the user's configuration, and makes every commit
// reproducible.
func (s *Server) environment() []string {
	return []string{
		"PATH=" + filepath.Dir(s.git) + ":/usr/local/bin:/usr/bin:/bin",
		"HOME=" + s.home,
		"LC_ALL=C",
		"TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=" + authorName,
		"GIT_AUTHOR_EMAIL=" + authorEmail,
		"GIT_AUTHOR_DATE=@1767225600 +0000",
		"GIT_COMMITTER_NAME=" + authorName,
		"GIT_COMMITTER_EMAIL=" + authorEmail,
		"GIT_COMMITTER_DATE=@1767225600 +0000",
	}
}

// LockSSHKey returns a private key in OpenSSH's PEM form, encrypted with a passphrase. Decrypting it
// takes one round of the key derivation, and not the 16 or more of a real key, which take seconds
// under the race detector.
func LockSSHKey(t testing.TB, key []byte, passphrase string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, key, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-p", "-a", "1", "-P", "", "-N", passphrase, "-f", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("encrypt SSH key: %v\n%s", err, out)
	}
	locked, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return locked
}
