// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agenttest

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/identity"
)

// Reception sets how an agent waits for the hub to dial.
type Reception struct {
	Options

	// Key is the agent's, and UID its cluster's.
	Key ed25519.PrivateKey
	UID string
	// Hub are the keys by which it knows the hub.
	Hub []ed25519.PublicKey
	// Listener is where it waits. Nil: at a port of the kernel's.
	Listener net.Listener
	// Once makes it take one tunnel alone: a lost one is not opened again.
	Once bool
	// Refuse answers a request that has proved to be the hub's, in place of the agent, when it
	// returns a status. Nil: none is refused.
	Refuse func(path string) int
}

// Receptive is an agent that the hub dials.
type Receptive struct {
	// Addr is where.
	Addr string
	// Tunnels gives the connections that carry people's requests, and Homes those for the agent's
	// own calls, as they come.
	Tunnels chan *Agent
	Homes   chan *Call
	// Refused gives what was wrong with tokens that were none of the hub's.
	Refused chan error

	reception Reception
	listener  net.Listener
	serving   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
	agents []*Agent
	took   bool
}

// Call is a connection for an agent's own calls.
type Call struct {
	*http.ClientConn

	// Header is the header of the hub's request.
	Header http.Header
}

// Listen waits for the hub to dial. The agent is closed at the test's end.
func Listen(tb testing.TB, r Reception) *Receptive {
	tb.Helper()
	if r.Listener == nil {
		var err error
		if r.Listener, err = new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0"); err != nil {
			tb.Fatal(err)
		}
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, r.Key.Public(), r.Key)
	if err != nil {
		tb.Fatal(err)
	}
	a := &Receptive{
		Addr: r.Listener.Addr().String(), reception: r, Tunnels: make(chan *Agent, 100), Homes: make(chan *Call, 100), Refused: make(chan error, 100),
		listener: tls.NewListener(r.Listener, &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: r.Key}},
		}),
	}
	a.serving.Go(a.accept)
	tb.Cleanup(a.Close)
	return a
}

// Close ends the agent and all of its connections.
func (a *Receptive) Close() {
	a.mu.Lock()
	a.closed = true
	conns, agents := a.conns, a.agents
	a.mu.Unlock()
	_ = a.listener.Close()
	for _, conn := range conns {
		_ = conn.Close()
	}
	for _, agent := range agents {
		agent.Close()
	}
	a.serving.Wait()
}

// Cut ends all connections; the agent waits for others.
func (a *Receptive) Cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, conn := range a.conns {
		_ = conn.Close()
	}
}

func (a *Receptive) accept() {
	for {
		conn, err := a.listener.Accept()
		if err != nil {
			return
		}
		a.mu.Lock()
		if a.conns = append(a.conns, conn); a.closed {
			_ = conn.Close()
		}
		a.mu.Unlock()
		a.serving.Go(func() {
			if !a.answer(conn) {
				_ = conn.Close()
			}
		})
	}
}

// answer answers the one request of a connection, and reports whether that lives on.
func (a *Receptive) answer(conn net.Conn) bool {
	reader := bufio.NewReader(conn)
	request, err := http.ReadRequest(reader)
	if err != nil {
		return false
	}
	own, _ := a.reception.Key.Public().(ed25519.PublicKey)
	token, _ := identity.BearerToken(request.Header)
	status := http.StatusSwitchingProtocols
	if _, err := identity.VerifyHubToken(token, identity.HubTokenParams{Keys: a.reception.Hub, ClusterUID: a.reception.UID, AgentKey: own}); err != nil {
		a.Refused <- err
		status = http.StatusUnauthorized
	} else if a.reception.Refuse != nil {
		if refusal := a.reception.Refuse(request.URL.Path); refusal != 0 {
			status = refusal
		}
	}
	header := http.Header{}
	tunnel := request.URL.Path == "/tunnel/v1/accept"
	if tunnel {
		header = a.reception.header()
	}
	a.mu.Lock()
	refused := tunnel && a.reception.Once && a.took
	a.took = a.took || tunnel
	a.mu.Unlock()
	if refused {
		return false
	}
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d Answer\r\nConnection: Upgrade\r\nUpgrade: %s\r\n", status, request.Header.Get("Upgrade"))
	_ = header.Write(conn)
	if _, err := conn.Write([]byte("\r\n")); err != nil || status != http.StatusSwitchingProtocols {
		return false
	}
	if tunnel {
		a.tunnel(&bufferedConn{Conn: conn, reader: reader})
		return true
	}
	return a.home(conn, request.Header)
}

func (a *Receptive) tunnel(conn net.Conn) {
	agent := newAgent(conn, a.reception.Options)
	a.mu.Lock()
	a.agents = append(a.agents, agent)
	a.mu.Unlock()
	a.Tunnels <- agent
	<-agent.done
}

func (a *Receptive) home(conn net.Conn, header http.Header) bool {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols: protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}
	client, err := transport.NewClientConn(context.Background(), "http", "hub:80")
	if err != nil {
		return false
	}
	a.Homes <- &Call{ClientConn: client, Header: header}
	return true
}
