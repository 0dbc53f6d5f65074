// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// Properties of an agent's connection.
const (
	connectPath    = "/tunnel/v1/connect"
	tunnelProtocol = "leat-tunnel/1"
	pingAfter      = 20 * time.Second
	handshake      = 20 * time.Second
	maxStreams     = 1000
	streamWindow   = 512 << 10
)

// reconnect is the policy of agents' retries.
var reconnect = backoff.Policy{Initial: 500 * time.Millisecond, Max: 30 * time.Second, Multiplier: 2}

// light is an agent without a cluster: it holds one connection to the tunnel, reconnects when it is
// lost, and answers every request of the hub. Thousands fit into one process.
type light struct {
	cluster, token string
	// replicas returns the hub's current replicas. Each attempt begins with any of them, as behind
	// a balancer, and skips one that refuses connections.
	replicas func() []string
	tls      *tls.Config  // nil: plain text
	handler  http.Handler // the same for all
	// connected is called each time a connection is up, and refused each time a listening replica
	// refused one. Either may be nil.
	connected, refused func()
}

// run holds the connection until ctx ends.
func (a *light) run(ctx context.Context) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		conn, err := a.connect(ctx)
		if err == nil {
			attempt = 0 // a success makes the next failure the first
			a.serve(ctx, conn)
		}
		if delay, ok := rpcerr.RetryDelay(err); ok {
			err = backoff.RetryAfter(err, delay) // the hub names the delay
		}
		_ = backoff.Wait(ctx, reconnect.After(err, attempt)) // the loop's condition sees the same end
	}
}

// connect opens a connection to one of the replicas.
func (a *light) connect(ctx context.Context) (*taken, error) {
	ctx, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	var failure error
	replicas := a.replicas()
	for _, i := range mathrand.Perm(len(replicas)) {
		raw, err := new(net.Dialer).DialContext(ctx, "tcp", replicas[i])
		if err != nil {
			failure = err // no listener: try the next one
			continue
		}
		conn, err := a.open(ctx, raw)
		if err != nil {
			if a.refused != nil {
				a.refused()
			}
			return nil, errors.Join(err, raw.Close())
		}
		if a.connected != nil {
			a.connected()
		}
		return conn, nil
	}
	return nil, failure
}

// open upgrades the connection.
func (a *light) open(ctx context.Context, raw net.Conn) (*taken, error) {
	deadline, _ := ctx.Deadline()
	if err := raw.SetDeadline(deadline); err != nil {
		return nil, err
	}
	conn := raw
	if a.tls != nil {
		conn = tls.Client(raw, a.tls)
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: %s\r\n"+
		"Authorization: Bearer %s\r\nLeat-Connection-Id: %s\r\n\r\n", connectPath, tunnelProtocol, a.token, rand.Text()); err != nil {
		return nil, err
	}
	reader := bufio.NewReaderSize(conn, 1<<10)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusSwitchingProtocols {
		if err := rpcerr.FromHTTP(response); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("connect to the tunnel: %s", response.Status)
	}
	return &taken{Conn: conn, reader: reader}, raw.SetDeadline(time.Time{})
}

// serve answers until the connection or ctx ends, or the hub asks the agent to leave. In the last
// case the connection continues for as long as the hub holds it.
func (a *light) serve(ctx context.Context, conn *taken) {
	v := &visit{token: a.token, leave: make(chan time.Duration, 1)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		server := &http2.Server{
			ReadIdleTimeout: pingAfter, PingTimeout: pingAfter, MaxConcurrentStreams: maxStreams,
			MaxUploadBufferPerStream: streamWindow, MaxUploadBufferPerConnection: maxStreams * streamWindow,
		}
		server.ServeConn(conn, &http2.ServeConnOpts{
			Handler: a.handler, Context: context.WithValue(ctx, visitKey{}, v),
		})
	}()
	select {
	case <-served:
	case pause := <-v.leave:
		_ = backoff.Wait(ctx, pause) // the caller's loop sees the same end
	}
}

// visit is the handler of one connection.
type visit struct {
	token string
	leave chan time.Duration
}

type visitKey struct{}

// lightHandler answers the hub for all light agents.
func lightHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(tunnelv1connect.NewLinkServiceHandler(link{}))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"ConfigMap","apiVersion":"v1"}`)) // an error means that the caller is gone
	})
	return mux
}

// link keeps connections alive, as an agent does.
type link struct{}

// Attach implements tunnelv1connect.LinkServiceHandler.
func (link) Attach(context.Context, *tunnelv1.AttachRequest) (*tunnelv1.AttachResponse, error) {
	return &tunnelv1.AttachResponse{}, nil
}

// Heartbeat implements tunnelv1connect.LinkServiceHandler.
func (link) Heartbeat(ctx context.Context, request *tunnelv1.HeartbeatRequest) (*tunnelv1.HeartbeatResponse, error) {
	v, ok := ctx.Value(visitKey{}).(*visit)
	if !ok {
		return nil, errors.New("heartbeat outside of a connection")
	}
	if request.GetDrain() != nil {
		select {
		case v.leave <- request.GetDrain().GetReconnectAfter().AsDuration():
		default: // it is leaving
		}
	}
	answer := &tunnelv1.HeartbeatResponse{}
	if request.GetWantToken() {
		answer.AccessToken = v.token
	}
	return answer, nil
}

// taken is a connection from which some bytes were already read.
type taken struct {
	net.Conn

	reader *bufio.Reader
}

// Read implements net.Conn.
func (c *taken) Read(p []byte) (int, error) { return c.reader.Read(p) }

// connectAll runs n agents until the benchmark ends, and returns when all have connected.
func connectAll(b *testing.B, n int, agent func(i int) *light) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running, connecting sync.WaitGroup
	b.Cleanup(func() {
		cancel()
		running.Wait()
	})
	turns := make(chan struct{}, joining) // one for each agent that connects for the first time
	connecting.Add(n)
	for i := range n {
		a := agent(i)
		told, once := a.connected, new(sync.Once)
		a.connected = func() {
			once.Do(func() {
				<-turns
				connecting.Done()
			})
			if told != nil {
				told()
			}
		}
		turns <- struct{}{}
		running.Go(func() { a.run(ctx) })
	}
	connecting.Wait()
}

func clusterName(i int) string { return fmt.Sprintf("cluster-%05d", i) }
