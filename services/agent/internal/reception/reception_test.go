// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reception_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/services/agent/internal/reception"
)

// agent is an agent's reception, at addresses of this process alone.
type agent struct {
	t        *testing.T
	hub      *identity.Issuer
	hubKeys  []ed25519.PublicKey
	key      ed25519.PrivateKey
	uid      string
	home     *reception.Home
	listener *loopback.Pipes
	accepted chan net.Conn
	refuse   error
	stop     func()
}

func (a *agent) Key() ed25519.PrivateKey      { return a.key }
func (a *agent) ClusterUID() string           { return a.uid }
func (a *agent) HubKeys() []ed25519.PublicKey { return a.hubKeys }

// Introduce implements reception.Tunnel.
func (a *agent) Introduce(context.Context) (http.Header, error) {
	return http.Header{"Leat-Connection-Id": {"c"}}, a.refuse
}

// Accept implements reception.Tunnel.
func (a *agent) Accept(ctx context.Context, conn net.Conn, _ http.Header) {
	a.accepted <- conn
	<-ctx.Done()
	_ = conn.Close()
}

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func public(key ed25519.PrivateKey) ed25519.PublicKey {
	own, _ := key.Public().(ed25519.PublicKey)
	return own
}

// start waits for the hub until the test ends.
func start(t *testing.T) *agent {
	t.Helper()
	hub := newKey(t)
	a := &agent{
		t: t, hub: identity.NewIssuer(hub), hubKeys: []ed25519.PublicKey{public(hub)}, key: newKey(t), uid: "uid", home: new(reception.Home),
		listener: loopback.NewPipes(), accepted: make(chan net.Conn, 100),
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- reception.New(reception.Params{Identity: a, Tunnel: a, Home: a.home, Logger: slog.New(slog.DiscardHandler)}).Run(ctx, a.listener)
	}()
	a.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(a.stop)
	return a
}

// dial opens a connection as the network would.
func (a *agent) dial() net.Conn {
	a.t.Helper()
	ours, err := a.listener.Dial(context.WithoutCancel(a.t.Context()), "", "")
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = ours.Close() })
	return ours
}

// secure is the first step of the hub.
func (a *agent) secure(conn net.Conn, change func(*tls.Config)) (*tls.Conn, error) {
	a.t.Helper()
	config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if change != nil {
		change(config)
	}
	secured := tls.Client(conn, config)
	return secured, secured.HandshakeContext(a.t.Context())
}

// token is one of the hub's, for the agent with a key.
func (a *agent) token(uid string, key ed25519.PublicKey) string {
	a.t.Helper()
	token, err := a.hub.IssueHubToken(identity.Identity{Kind: identity.KindService, Name: "tunnel"}, uid, key)
	if err != nil {
		a.t.Fatal(err)
	}
	return token
}

// ask sends one request, and returns the answer with the connection.
func (a *agent) ask(path, protocol, token, more string) (*http.Response, *tls.Conn) {
	a.t.Helper()
	conn, err := a.secure(a.dial(), nil)
	if err != nil {
		a.t.Fatal(err)
	}
	go func() { // a pipe has no buffer
		_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: agent\r\nConnection: Upgrade\r\nUpgrade: %s\r\nAuthorization: Bearer %s\r\n%s\r\n", path, protocol, token, more)
	}()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		a.t.Fatal(err)
	}
	return res, conn
}

const (
	tunnelPath, tunnelProtocol = "/tunnel/v1/accept", "leat-tunnel/1"
	homePath, homeProtocol     = "/tunnel/v1/home", "leat-home/1"
)

func TestTheHubIsLetIn(t *testing.T) {
	t.Parallel()
	a := start(t)
	res, conn := a.ask(tunnelPath, tunnelProtocol, a.token("uid", public(a.key)), "")
	if res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Upgrade") != tunnelProtocol || res.Header.Get("Leat-Connection-Id") != "c" {
		t.Errorf("got %s %v, want the connection handed over with the agent's introduction", res.Status, res.Header)
	}
	state := conn.ConnectionState()
	if got, _ := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey); !got.Equal(public(a.key)) || state.Version != tls.VersionTLS13 || state.NegotiatedProtocol != "" {
		t.Errorf("got %v over %x and %q, want the agent's key over TLS 1.3 and no protocol", got, state.Version, state.NegotiatedProtocol)
	}
	served := <-a.accepted
	go func() { _, _ = io.WriteString(conn, "preface") }()
	if got, err := io.ReadAll(io.LimitReader(served, 7)); err != nil || string(got) != "preface" {
		t.Errorf("got %q, %v, want what the hub sends", got, err)
	}
}

// TestOthersAreRefused has an attacker dial the agent, who may have obtained a token of the hub's.
func TestOthersAreRefused(t *testing.T) {
	t.Parallel()
	a := start(t)
	other := newKey(t)
	used := a.token("uid", public(a.key))
	if res, _ := a.ask(homePath, homeProtocol, used, ""); res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %s for the hub", res.Status)
	}
	access, _, err := a.hub.Issue(identity.Identity{Kind: identity.KindUser, Name: "ada", UID: "u"}, identity.ServiceDistributor, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	forged, err := identity.NewIssuer(other).IssueHubToken(identity.Identity{Kind: identity.KindService, Name: "tunnel"}, "uid", public(a.key))
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"no token":                 "",
		"no token at all":          "a.b.c",
		"used before":              used,
		"a person's":               access,
		"another hub's":            forged,
		"another cluster's":        a.token("other", public(a.key)),
		"got by a man in between":  a.token("uid", public(other)), // a peer with a certificate of its own
		"larger than any token is": strings.Repeat("x", 9<<10),
	} {
		for _, path := range []string{tunnelPath, homePath, "/", "/metrics"} {
			if res, _ := a.ask(path, tunnelProtocol, token, ""); res.StatusCode != http.StatusUnauthorized || res.ContentLength > 0 {
				t.Errorf("%s at %s: got %s, want 401 and no more", name, path, res.Status)
			}
		}
	}
	if res, _ := a.ask(tunnelPath, "websocket", a.token("uid", public(a.key)), ""); res.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("got %s for another protocol, want 426", res.Status)
	}
	if res, _ := a.ask(tunnelPath, tunnelProtocol, "x", "X: "+strings.Repeat("x", 20<<10)+"\r\n"); res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %s for a large request, want 431", res.Status)
	}
	if _, err := a.secure(a.dial(), func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }); err == nil {
		t.Error("TLS 1.2 was taken")
	}
	a.refuse = errors.New("no token yet")
	if res, _ := a.ask(tunnelPath, tunnelProtocol, a.token("uid", public(a.key)), ""); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got %s from an agent that cannot introduce itself, want 503", res.Status)
	}
}

// TestAgentThatIsNotEnrolledTakesTheHubOfItsKeys alone: it knows no uid yet.
func TestAgentThatIsNotEnrolledTakesTheHubOfItsKeys(t *testing.T) {
	t.Parallel()
	a := start(t)
	a.uid = ""
	if res, _ := a.ask(homePath, homeProtocol, a.token("any", public(a.key)), "Leat-Home-Scope: enrol\r\n"); res.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("got %s, want it let in", res.Status)
	}
	if res, _ := a.ask(homePath, homeProtocol, a.token("any", public(newKey(t))), ""); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("bound to another key: got %s, want 401", res.Status)
	}
}

// TestUnprovenConnectionsAreBounded in number and in time, and keep no caller out.
func TestUnprovenConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := start(t)
		defer a.stop()
		held, _ := a.ask(tunnelPath, tunnelProtocol, a.token("uid", public(a.key)), "")
		if held.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("got %s, want the hub let in", held.Status)
		}
		served := <-a.accepted
		var silent []net.Conn
		for range 17 {
			silent = append(silent, a.dial())
		}
		synctest.Wait()
		if !closed(silent[0]) || closed(silent[1]) {
			t.Error("want the oldest of 17 connections closed, and no other")
		}
		if res, _ := a.ask(tunnelPath, tunnelProtocol, a.token("uid", public(a.key)), ""); res.StatusCode != http.StatusSwitchingProtocols {
			t.Errorf("got %s, want the hub let in beside others that stand in the way", res.Status)
		}
		loris := a.dial()
		go func() {
			for closed := false; !closed; time.Sleep(time.Second) {
				_, err := loris.Write([]byte{22})
				closed = err != nil
			}
		}()
		time.Sleep(11 * time.Second)
		for i, conn := range append(silent, loris) {
			if !closed(conn) {
				t.Errorf("connection %d is open after 11 s without a proof", i)
			}
		}
		if closed(served) {
			t.Error("the hub's connection is closed")
		}
	})
}

// closed reports whether the other end has closed a connection on which nothing is sent.
func closed(conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := conn.Read(make([]byte, 1))
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe)
}

// TestHomeWaits for a connection that lets the call pass.
func TestHomeWaits(t *testing.T) {
	t.Parallel()
	a := start(t)
	client := &http.Client{Transport: a.home}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiting := make(chan error, 1)
	go func() {
		_, err := get(ctx, client, "/x")
		waiting <- err
	}()
	a.serve("first", "Leat-Home-Scope: enrol\r\n")
	enrol := distributorv1connect.DistributorServiceEnrollProcedure
	if got, err := get(t.Context(), client, enrol); err != nil || got != "first "+enrol {
		t.Errorf("enrolment: got %q, %v, want it to pass", got, err)
	}
	cancel()
	if err := await.Value(t, "the end of the call", waiting); !errors.Is(err, context.Canceled) {
		t.Errorf("without a connection that lets it pass: got %v, want the call to wait until it is canceled", err)
	}
	answers := make(chan string, 1)
	go func() {
		got, err := get(t.Context(), client, "/x")
		answers <- fmt.Sprint(got, err)
	}()
	end := a.serve("second", "")
	if got := <-answers; got != "second /x<nil>" {
		t.Errorf("got %q, want the call to wait for a connection that lets it pass", got)
	}
	end()
	a.serve("third", "")
	for { // until the agent has seen the end of the second
		if got, err := get(t.Context(), client, "/y"); err == nil {
			if got != "third /y" {
				t.Errorf("got %q, want the third connection's answer", got)
			}
			break
		}
	}
}

// serve is the hub's side of a connection for the agent's own calls.
func (a *agent) serve(name, header string) (end func()) {
	a.t.Helper()
	res, conn := a.ask(homePath, homeProtocol, a.token("uid", public(a.key)), header)
	if res.StatusCode != http.StatusSwitchingProtocols {
		a.t.Fatalf("got %s, want the connection handed over", res.Status)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: protocols, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, name+" "+r.URL.Path)
	})}
	go func() { _ = server.Serve(loopback.Single(plain{conn})) }()
	a.t.Cleanup(func() { _ = server.Close() })
	return func() { _ = conn.Close() }
}

// plain hides from the server that the connection is TLS: HTTP/2 begins on it without being
// negotiated.
type plain struct{ net.Conn }

func get(ctx context.Context, client *http.Client, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://hub"+path, nil)
	if err != nil {
		return "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return string(body), err
}
