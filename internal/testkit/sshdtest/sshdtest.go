// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package sshdtest runs OpenSSH's own sshd for a test, as the user that runs the test: on a
// loopback port, with a generated host key and client keys, and without the machine's
// configuration.
package sshdtest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/leatdev/leat/internal/childproc"
	"github.com/leatdev/leat/internal/testkit/loopback"
)

// Passphrase protects [Server.LockedKey].
const Passphrase = "of the test's key"

// Server is a running sshd. It ends with the test.
type Server struct {
	// Addr is its host:port.
	Addr string
	// User is the only user that can log in.
	User string
	// PrivateKey is the client key, in OpenSSH's PEM form.
	PrivateKey []byte
	// LockedKey is another client key, with [Passphrase]. Decrypting it takes a good part of a
	// second, which makes it safe.
	LockedKey []byte
	// KnownHosts is the line of a known_hosts file that names it.
	KnownHosts string
}

// config ignores what the machine or a user has configured. Git's programs are found in the PATH of
// a login.
const config = `ListenAddress %s
HostKey %s
PidFile none
AuthorizedKeysFile %s
AuthenticationMethods publickey
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
PrintMotd no
LogLevel ERROR
`

// Start runs sshd, and returns once it accepts logins. If sshd is missing the test fails.
func Start(t testing.TB) *Server {
	t.Helper()
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		sshd = "/usr/sbin/sshd" // not in every user's PATH
	}
	if _, err := os.Stat(sshd); err != nil {
		t.Fatal("sshd is not installed: run `make system` or `apt-get install openssh-server`")
	}
	who, err := user.Current()
	if err != nil {
		t.Fatalf("find user: %v", err)
	}
	if who.Uid == "0" { // sshd's unprivileged part needs the folder, and packages create it only in their start scripts
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatalf("make sshd's folder: %v", err)
		}
	}
	dir := t.TempDir()
	hostKey, hostPEM := newKey(t, "")
	openKey, openPEM := newKey(t, "")
	lockedKey, lockedPEM := newKey(t, Passphrase)
	s := &Server{Addr: loopback.Addr(t), User: who.Username, PrivateKey: openPEM, LockedKey: lockedPEM}
	s.KnownHosts = knownhosts.Line([]string{knownhosts.Normalize(s.Addr)}, hostKey) + "\n"
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	host := write("host", hostPEM)
	authorized := write("authorized_keys", append(ssh.MarshalAuthorizedKey(openKey), ssh.MarshalAuthorizedKey(lockedKey)...))
	s.run(t, sshd, write("sshd_config", fmt.Appendf(nil, config, s.Addr, host, authorized)))
	return s
}

func newKey(t testing.TB, passphrase string) (ssh.PublicKey, []byte) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatalf("make SSH key: %v", err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatalf("make SSH key: %v", err)
	}
	var block *pem.Block
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(private, "sshdtest")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "sshdtest", []byte(passphrase))
	}
	if err != nil {
		t.Fatalf("make SSH key: %v", err)
	}
	return key, pem.EncodeToMemory(block)
}

// run keeps sshd running until the test ends, and waits for its banner.
func (s *Server) run(t testing.TB, sshd, config string) {
	t.Helper()
	var said strings.Builder
	command := exec.Command(sshd, "-D", "-e", "-f", config)
	command.Stdout, command.Stderr = &said, &said
	ended, err := childproc.Start(command)
	if err != nil {
		t.Fatalf("start sshd: %v", err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("sshd said:\n%s", said.String())
		}
	})
	const patience = 30 * time.Second
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if s.greets() {
			return
		}
		select {
		case <-ended:
			t.Fatalf("sshd ended at once: %s", said.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatalf("sshd does not answer on %s", s.Addr)
}

func (s *Server) greets() bool {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	greeting := make([]byte, 4)
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	n, _ := conn.Read(greeting)
	return string(greeting[:n]) == "SSH-"
}

// URL returns the URL of a repository in a folder of this machine.
func (s *Server) URL(dir string) string { return "ssh://" + s.User + "@" + s.Addr + dir }
