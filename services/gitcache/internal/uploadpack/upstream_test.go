// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

func basic(user, password string) upstream.Credential {
	return upstream.Credential{
		Method: upstream.MethodBasic, Username: user, Password: secret.Text(password), AllowPlainHTTP: true,
	}
}

func TestBearer(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer token" {
			return false
		}
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	f := newFixture(t, repo.URL())
	f.def.Credential = upstream.Credential{Method: upstream.MethodBearer, Token: "token"}
	wantReason(t, f.try(t.Context()), reason.UpstreamAuthRejected) // plain HTTP was not allowed
	f.def.Credential.AllowPlainHTTP = true
	f.fetch(t)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server := gittest.New(t, gittest.WithTLS())
	repo := server.Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	f := newFixture(t, repo.URL())
	wantReason(t, f.try(t.Context()), reason.UpstreamUnreachable)
	f.def.CAPEM = string(server.CertificatePEM())
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": first})
}

func sshDefinition(server *gittest.Server, repo *gittest.Repo) mirror.Definition {
	return mirror.Definition{
		Name: "demo", UID: "uid-1", Definition: upstream.Definition{
			URL: repo.SSHURL(),
			Credential: upstream.Credential{
				Method: upstream.MethodSSH, PrivateKey: secret.Text(server.SSHPrivateKey()), KnownHosts: server.SSHKnownHosts(),
			},
		},
	}
}

func TestSSH(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "group/it's")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	f := newFixture(t, "")
	f.def = sshDefinition(server, repo)
	if err := f.Check(f.def); err != nil {
		t.Fatal(err)
	}
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": first})
	second := repo.Commit(t, "main", map[string]string{"a": "2"})
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": second})
	f.files(t, second)
	f.fetch(t)
	fsck(t, f)
}

// TestSSHServerThatNeverEnds is a program at the other side that greets instead of speaking the
// protocol, and does not end when its input does.
func TestSSHServerThatNeverEnds(t *testing.T) {
	t.Parallel()
	key := hostKeys(t)["ed25519"]
	signer, err := ssh.NewSignerFromSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(signer)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, channels, requests, err := ssh.NewServerConn(conn, config)
		if err != nil {
			return
		}
		go ssh.DiscardRequests(requests)
		for opened := range channels { // until the client closes the connection
			channel, requests, err := opened.Accept()
			if err != nil {
				return
			}
			go func() {
				for request := range requests {
					_ = request.Reply(true, nil)
					if request.Type == "exec" {
						_, _ = io.WriteString(channel, "Welcome!\n")
					}
				}
			}()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-served
	})

	f := newFixture(t, "ssh://git@"+listener.Addr().String()+"/demo.git")
	f.def.Credential = upstream.Credential{
		Method: upstream.MethodSSH, PrivateKey: secret.Text(gittest.New(t).SSHPrivateKey()),
		KnownHosts: knownhosts.Line([]string{listener.Addr().String()}, mustPublic(t, key)),
	}
	upstream := wantReason(t, f.try(await.Context(t)), reason.UpstreamProtocol)
	if !strings.Contains(upstream.Message, "Welc") {
		t.Errorf("got %q, want it to quote the greeting", upstream.Message)
	}
}

// TestNotSpoken is an advertisement with SHA-256 object names.
func TestNotSpoken(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		line := strings.Repeat("1", 64) + " HEAD\x00object-format=sha256\n"
		_, _ = fmt.Fprintf(w, "001e# service=git-upload-pack\n0000%04x%s0000", len(line)+4, line)
		return true
	})
	err := wantReason(t, newFixture(t, repo.URL()).try(t.Context()), reason.UpstreamProtocol)
	if !strings.Contains(err.Message, "SHA-256") {
		t.Errorf("got message %q, want it to name SHA-256", err.Message)
	}
}

// TestQuietAfterRefusal asks a host once that wants to be left alone, and not again before its
// time.
func TestQuietAfterRefusal(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "17")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	f := newFixture(t, repo.URL())
	wantReason(t, f.try(t.Context()), reason.UpstreamRateLimited)
	server.Intercept(nil)
	if _, ok := errors.AsType[*mirror.QuietError](f.try(t.Context())); !ok {
		t.Error("the host was asked again before its time")
	}
	f.reopen(t) // forgets what the host asked for
	f.fetch(t)
}

func TestContextEndsFetch(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never sends a byte
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	server := gittest.New(t)
	for _, def := range []mirror.Definition{
		{Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: "http://" + silent.Addr().String() + "/demo"}},
		{Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: "ssh://git@" + silent.Addr().String() + "/demo", Credential: upstream.Credential{
			Method: upstream.MethodSSH, PrivateKey: secret.Text(server.SSHPrivateKey()),
			KnownHosts: strings.Replace(server.SSHKnownHosts(), portOf(server.SSHAddr()), portOf(silent.Addr().String()), 1),
		}}},
	} {
		f := newFixture(t, "")
		f.def = def
		ctx, cancel := context.WithCancelCause(t.Context())
		enough, taken := errors.New("enough"), make(chan struct{})
		go func() {
			defer close(taken)
			if conn, err := silent.Accept(); err == nil {
				cancel(enough)
				_, _ = io.Copy(io.Discard, conn) // until the client gives up
				_ = conn.Close()
			}
		}()
		if err := f.try(ctx); !errors.Is(err, enough) && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want the context's error", def.URL, err)
		}
		cancel(nil)
		await.Closed(t, "the end of the connection", taken)
	}
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
