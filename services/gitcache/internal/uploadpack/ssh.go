// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack/route"
)

const (
	maxStderr = 4 << 10
	// lastWords is how long a program that failed may take to end, so that its error stream is
	// complete.
	lastWords = 5 * time.Second
)

// sshChannel runs one program, such as git-upload-pack for a fetch, on the other side of one SSH
// connection. Requests go to its input, one after the other, and all answers come out of its
// output. The context of the call that dialled it closes the connection, which ends everything that
// waits.
type sshChannel struct {
	client  *ssh.Client
	session *ssh.Session
	stdin   io.WriteCloser
	stdout  reply
	stderr  io.Reader
	stop    func() bool // ends watching the context
}

// dialSSH connects and starts a command. The connection ends with ctx at the latest.
func (c *Client) dialSSH(ctx context.Context, p mirror.FetchParams, t target, command string, wantsVersion2 bool) (*sshChannel, error) {
	config, err := sshConfig(t, c.config.Dir)
	if err != nil {
		return nil, err
	}
	noProxy := http.ProxyURL(nil) // the environment's are for the web
	way, err := c.newRoute(t.def, p, noProxy, c.written(t.def)...)
	if err != nil {
		return nil, err
	}
	if err := c.config.Hosts.Request(ctx, t.host()); err != nil {
		return nil, err
	}
	conn, err := way.Dial(ctx, "ssh", t.sshAddress())
	if err != nil {
		return nil, err
	}
	s := &sshChannel{stop: context.AfterFunc(ctx, func() { _ = conn.Close() })} // the ssh package knows no contexts
	if err := s.start(conn, t.sshAddress(), config, command, wantsVersion2); err != nil {
		s.stop()
		return nil, errors.Join(err, conn.Close())
	}
	return s, nil
}

// sshConfig authenticates the client with the credential's key, and the server by its known_hosts.
// It asks the server for host keys of the types that known_hosts has, as the ssh command does:
// otherwise a server with several keys could show one that is not in the list.
func sshConfig(t target, dir string) (*ssh.ClientConfig, error) {
	signer, err := parseKey(t.def.Credential)
	if err != nil {
		return nil, err
	}
	known, err := parseKnownHosts(t.def.Credential.KnownHosts, dir)
	if err != nil {
		return nil, err
	}
	address := t.sshAddress()
	algorithms := known.HostKeyAlgorithms(address)
	if len(algorithms) == 0 {
		return nil, &hostKeyError{host: address}
	}
	user := t.endpoint.User
	if user == "" {
		user = "git"
	}
	check := known.HostKeyCallback()
	return &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyAlgorithms: algorithms, Timeout: route.DialTimeout,
		HostKeyCallback: func(host string, remote net.Addr, key ssh.PublicKey) error {
			if err := check(host, remote, key); err != nil {
				return &hostKeyError{host: address, key: key, changed: knownhosts.IsHostKeyChanged(err), cause: err}
			}
			return nil
		},
	}, nil
}

// start authenticates both sides and starts the command. The caller closes conn if it fails.
func (s *sshChannel) start(conn net.Conn, address string, config *ssh.ClientConfig, command string, wantsVersion2 bool) error {
	c, channels, requests, err := ssh.NewClientConn(conn, address, config)
	if err != nil {
		switch text := err.Error(); { // the ssh package has no types for these
		case strings.Contains(text, "unable to authenticate"):
			err = fmt.Errorf("%w: %w", errSSHAuth, err)
		case strings.Contains(text, "no common algorithm for host key"):
			err = &hostKeyError{host: address, changed: true, cause: err}
		}
		return fmt.Errorf("ssh handshake: %w", err)
	}
	s.client = ssh.NewClient(c, channels, requests)
	if s.session, err = s.client.NewSession(); err != nil {
		return fmt.Errorf("open ssh session: %w", err)
	}
	stdin, err1 := s.session.StdinPipe()
	stdout, err2 := s.session.StdoutPipe()
	stderr, err3 := s.session.StderrPipe()
	if err := errors.Join(err1, err2, err3); err != nil {
		return fmt.Errorf("open ssh session: %w", err)
	}
	s.stdin, s.stdout, s.stderr = stdin, newReply(stdout, io.NopCloser(nil), false), stderr
	if wantsVersion2 {
		_ = s.session.Setenv("GIT_PROTOCOL", version2Wanted) // servers that take no variables speak the first version
	}
	if err := s.session.Start(command); err != nil {
		return fmt.Errorf("start program over ssh: %w", err)
	}
	return nil
}

// shellQuote makes text one word for the shell at the other side.
func shellQuote(text string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(text) + "'"
}

// open and send implement [channel]. All answers come out of one stream.
func (s *sshChannel) open(context.Context) (reply, error) { return s.stdout, nil }

func (s *sshChannel) send(_ context.Context, request string, _ bool) (reply, error) {
	_, err := io.WriteString(s.stdin, request)
	return s.stdout, err
}

func (s *sshChannel) isStateless() bool { return false }

// Close ends the conversation and the connection.
func (s *sshChannel) Close() error {
	_, _ = io.WriteString(s.stdin, flushPacket) // where nothing was fetched, this reports it
	s.stop()
	return s.client.Close()
}

// blame adds the first words that the program wrote to its error stream, which ends with the
// program. A program that does not end is cut off. Until then the connection keeps the words, within
// the window of the ssh package. An error that comes with its own words needs no others.
func (s *sshChannel) blame(err error) error {
	if _, isExplained := errors.AsType[problemError](err); isExplained {
		return err
	}
	_ = s.stdin.Close()
	impatient := time.AfterFunc(lastWords, func() { _ = s.client.Close() })
	defer impatient.Stop()
	written, _ := io.ReadAll(io.LimitReader(s.stderr, maxStderr)) // an end in the middle is an end, too
	if said := strings.TrimSpace(string(written)); said != "" {
		return &remoteError{said: said, cause: err}
	}
	return err
}
