// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backend_test

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
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/program"
)

// passphrase protects the locked key of a server.
const passphrase = "of the test's key"

// sshd is OpenSSH's own server, run as the user that runs the test: on a loopback port, with a
// generated host key and client keys, and without the machine's configuration. It ends with the
// test.
type sshd struct {
	addr string // host:port
	user string // the only one that can log in
	// privateKey is the client key, in OpenSSH's PEM form.
	privateKey []byte
	// lockedKey is another client key, with the passphrase.
	lockedKey []byte
	// knownHosts is the line of a known_hosts file that names the server.
	knownHosts string
}

// sshdConfig ignores what the machine or a user has configured. Git's programs are found in the PATH of
// a login.
const sshdConfig = `ListenAddress %s
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

// startSSHD runs sshd, and returns once it accepts logins. If sshd is missing the test fails.
func startSSHD(t *testing.T) *sshd {
	t.Helper()
	path, err := exec.LookPath("sshd")
	if err != nil {
		path = "/usr/sbin/sshd" // not in every user's PATH
	}
	if _, err := os.Stat(path); err != nil {
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
	lockedKey, lockedPEM := newKey(t, passphrase)
	s := &sshd{addr: loopback.Addr(t), user: who.Username, privateKey: openPEM, lockedKey: lockedPEM}
	s.knownHosts = knownhosts.Line([]string{knownhosts.Normalize(s.addr)}, hostKey) + "\n"
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	host := write("host", hostPEM)
	authorized := write("authorized_keys", append(ssh.MarshalAuthorizedKey(openKey), ssh.MarshalAuthorizedKey(lockedKey)...))
	config := write("sshd_config", fmt.Appendf(nil, sshdConfig, s.addr, host, authorized))
	program.Start(t, exec.Command(path, "-D", "-e", "-f", config)).Await(t, s.greets)
	return s
}

// newKey returns a key pair that no server knows yet, the private key as PEM, protected by the
// passphrase if there is one.
func newKey(t *testing.T, passphrase string) (ssh.PublicKey, []byte) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatalf("make SSH key: %v", err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatalf("make SSH key: %v", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "test")
	if err != nil {
		t.Fatalf("make SSH key: %v", err)
	}
	text := pem.EncodeToMemory(block)
	if passphrase != "" {
		text = gittest.LockSSHKey(t, text, passphrase)
	}
	return key, text
}

// greets reports whether sshd sends its banner.
func (s *sshd) greets() bool {
	conn, err := net.DialTimeout("tcp", s.addr, await.Patience)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	greeting := make([]byte, 4)
	_ = conn.SetReadDeadline(time.Now().Add(await.Patience))
	n, _ := conn.Read(greeting)
	return string(greeting[:n]) == "SSH-"
}

// url returns the URL of a repository in a folder of this machine.
func (s *sshd) url(dir string) string { return "ssh://" + s.user + "@" + s.addr + dir }
