// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	sshPort   = 22
	maxStderr = 4 << 10
)

// hostKeyError reports that a server's key is not the one in known_hosts.
type hostKeyError struct {
	host    string
	key     ssh.PublicKey // what the server showed; nil when it did not come to that
	changed bool          // known_hosts has another key for the host; false: none
	cause   error
}

func (e *hostKeyError) Error() string {
	return fmt.Sprintf("host key of %s not accepted: %v", e.host, e.cause)
}
func (e *hostKeyError) Unwrap() error { return e.cause }

func (e *hostKeyError) message() string {
	switch {
	case !e.changed:
		return "The credential's known_hosts has no line for " + e.host + "; ask its operator for the host key and add the line."
	case e.key == nil:
		return e.host + " has no host key of a type that known_hosts holds for it: it was replaced, or somebody stands in between. " +
			"Ask its operator for the key before you change known_hosts."
	default:
		return fmt.Sprintf("%s shows another host key than the one in known_hosts: %s %s. It was replaced, or somebody stands in "+
			"between. Ask its operator for the key before you change known_hosts.", e.host, e.key.Type(), ssh.FingerprintSHA256(e.key))
	}
}

// errSSHAuth marks a server that accepts none of our keys.
var errSSHAuth = errors.New("ssh key not accepted")

// sshSession runs one program, git-upload-pack for a fetch, on the other side of one SSH
// connection. Neither an agent nor any file of the user that the process runs as is looked at.
type sshSession struct {
	client  *ssh.Client
	session *ssh.Session
	stdin   io.WriteCloser
	stdout  *bufio.Reader
	stderr  *boundedBuffer
	agent   string
	offer   *Offer
	newest  bool        // ask for version 2
	two     *version2   // nil where the first version is spoken
	stop    func() bool // ends watching the context
}

func (c *Client) dialSSH(ctx context.Context, p mirror.FetchParams, t target, command string) (*sshSession, error) {
	address := net.JoinHostPort(t.endpoint.Host, strconv.Itoa(sshPortOf(t)))
	config, err := sshConfig(t, address, c.dir)
	if err != nil {
		return nil, err
	}
	way, _, err := c.newRoute(t.def, p, c.written(t.def)...)
	if err != nil {
		return nil, err
	}
	if t.def.ProxyURL == "" { // the environment's proxies are for the web
		way.proxy = http.ProxyURL(nil)
	}
	if err := c.hosts.Request(ctx, t.host()); err != nil {
		return nil, err
	}
	conn, err := way.tunnel(ctx, "ssh", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // the ssh package knows no contexts
	s, err := handshake(conn, address, config, command, c.version2)
	if err != nil {
		stop()
		return nil, errors.Join(err, conn.Close())
	}
	s.agent, s.stop = c.agent, stop
	return s, nil
}

func sshPortOf(t target) int {
	if t.endpoint.Port > 0 {
		return t.endpoint.Port
	}
	return sshPort
}

func handshake(conn net.Conn, address string, config *ssh.ClientConfig, command string, newest bool) (*sshSession, error) {
	c, channels, requests, err := ssh.NewClientConn(conn, address, config)
	if err != nil {
		switch text := err.Error(); { // the ssh package has no types for these
		case strings.Contains(text, "unable to authenticate"):
			err = fmt.Errorf("%w: %w", errSSHAuth, err)
		case strings.Contains(text, "no common algorithm for host key"):
			err = &hostKeyError{host: address, changed: true, cause: err}
		}
		return nil, fmt.Errorf("ssh handshake: %w", err)
	}
	s := &sshSession{client: ssh.NewClient(c, channels, requests), stderr: &boundedBuffer{}, newest: newest}
	if err := s.start(command); err != nil {
		return nil, errors.Join(err, s.client.Close())
	}
	return s, nil
}

func (s *sshSession) start(command string) error {
	var err error
	if s.session, err = s.client.NewSession(); err != nil {
		return fmt.Errorf("open ssh session: %w", err)
	}
	s.session.Stderr = s.stderr
	if s.stdin, err = s.session.StdinPipe(); err != nil {
		return fmt.Errorf("open ssh session: %w", err)
	}
	stdout, err := s.session.StdoutPipe()
	if err != nil {
		return fmt.Errorf("open ssh session: %w", err)
	}
	s.stdout = peekable(stdout)
	if s.newest {
		_ = s.session.Setenv("GIT_PROTOCOL", version2Wanted) // servers that take no variables speak the first version
	}
	if err := s.session.Start(command); err != nil {
		return fmt.Errorf("start program over ssh: %w", err)
	}
	return nil
}

// sshConfig authenticates with the credential's key, and the server by its known_hosts.
func sshConfig(t target, address, dir string) (*ssh.ClientConfig, error) {
	signer, err := parseKey(t.def.Credential)
	if err != nil {
		return nil, err
	}
	hosts, err := parseKnownHosts(t.def.Credential.KnownHosts, dir)
	if err != nil {
		return nil, err
	}
	algorithms := hosts.HostKeyAlgorithms(address)
	if len(algorithms) == 0 {
		return nil, &hostKeyError{host: address}
	}
	user := t.endpoint.User
	if user == "" {
		user = "git"
	}
	check := hosts.HostKeyCallback()
	return &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyAlgorithms: algorithms,
		HostKeyCallback: func(host string, remote net.Addr, key ssh.PublicKey) error {
			if err := check(host, remote, key); err != nil {
				return &hostKeyError{host: address, key: key, changed: knownhosts.IsHostKeyChanged(err), cause: err}
			}
			return nil
		},
		Timeout: dialTimeout,
	}, nil
}

func parseKey(c mirror.Credential) (ssh.Signer, error) {
	if c.Passphrase != "" {
		return ssh.ParsePrivateKeyWithPassphrase([]byte(c.PrivateKey.Reveal()), []byte(c.Passphrase.Reveal()))
	}
	return ssh.ParsePrivateKey([]byte(c.PrivateKey.Reveal()))
}

// parseKnownHosts goes through a file, because the library reads nothing else.
func parseKnownHosts(lines, dir string) (*knownhosts.HostKeyDB, error) {
	f, err := os.CreateTemp(dir, "tmp-known-hosts-")
	if err != nil {
		return nil, fmt.Errorf("read known_hosts: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(lines)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read known_hosts: %w", err)
	}
	db, err := knownhosts.NewDB(f.Name())
	if err != nil {
		// The library names the file, which means nothing to the person whose lines these are.
		return nil, errors.New(strings.ReplaceAll(err.Error(), f.Name(), "known_hosts"))
	}
	return db, nil
}

// shellQuote makes text one word for the shell at the other side.
func shellQuote(text string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(text) + "'"
}

// Advertise implements [Session].
func (s *sshSession) Advertise(ctx context.Context) (*Offer, error) {
	o, err := s.list(ctx)
	if err != nil {
		return nil, s.blame(err)
	}
	s.offer = o
	return o, nil
}

func (s *sshSession) list(ctx context.Context) (*Offer, error) {
	if !s.newest || !isVersion2(s.stdout) {
		return readOffer(io.LimitReader(s.stdout, maxAdvertised), s.agent)
	}
	two, err := readVersion2(s.stdout, s.agent)
	if err != nil {
		return nil, err
	}
	s.two = two
	s.two.send = func(_ context.Context, command string) (io.ReadCloser, error) {
		_, err := io.WriteString(s.stdin, command)
		return io.NopCloser(s.stdout), err
	}
	return s.two.listRefs(ctx)
}

// Fetch implements [Session].
func (s *sshSession) Fetch(ctx context.Context, r Request) (io.ReadCloser, error) {
	if s.two != nil {
		pack, err := s.two.fetch(ctx, r)
		if err != nil {
			return nil, s.blame(err)
		}
		return pack, nil
	}
	req := s.offer.encode(r)
	if err := encodeRequest(s.stdin, req, req.Haves, true); err != nil {
		return nil, s.blame(err)
	}
	return decodePack(s.stdout, io.NopCloser(nil), req)
}

// Close ends the conversation and the connection.
func (s *sshSession) Close() error {
	_, _ = io.WriteString(s.stdin, "0000") // where nothing was fetched, this is how to say so
	s.stop()
	return s.client.Close()
}

// remoteError is what the program at the other side printed before it gave up.
type remoteError struct {
	said  string
	cause error
}

func (e *remoteError) Error() string { return fmt.Sprintf("upstream said %q: %v", e.said, e.cause) }
func (e *remoteError) Unwrap() error { return e.cause }

// blame adds what came on the error stream. The stream is complete once the remote program has
// ended.
func (s *sshSession) blame(err error) error {
	_ = s.stdin.Close()
	_ = s.session.Wait() // its verdict is less than what it printed
	if said := s.stderr.text(); said != "" {
		return &remoteError{said: said, cause: err}
	}
	return err
}

// boundedBuffer keeps the first bytes written to it.
type boundedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write takes everything and keeps what fits.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.Write(p[:min(len(p), maxStderr-b.buf.Len())])
	return len(p), nil
}

func (b *boundedBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(b.buf.String())
}
