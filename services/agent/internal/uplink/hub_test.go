// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/coder/websocket"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/durationpb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/agent/internal/uplink"
)

// replica is the hub's side of the wire, as docs/reference/protocol/tunnel.md specifies it.
type replica struct {
	t      *testing.T
	name   string
	server *httptest.Server
	conns  chan *hubConn
	// refuse answers a request for the hub if it returns an error. Nil: nothing is refused.
	refuse func(r *http.Request) error
}

// hubConn is the hub's side of a connection of an agent.
type hubConn struct {
	http   *http.ClientConn
	raw    net.Conn
	header http.Header
	via    string
	link   tunnelv1connect.LinkServiceClient
}

func startReplica(t *testing.T, name string, refuse func(*http.Request) error) *replica {
	t.Helper()
	h := &replica{t: t, name: name, conns: make(chan *hubConn, 100), refuse: refuse}
	mux := http.NewServeMux()
	mux.HandleFunc("/tunnel/v1/connect", h.take)
	mux.Handle(tunnelv1connect.NewTunnelServiceHandler(&streams{replica: h}))
	h.server = httptest.NewUnstartedServer(mux)
	h.server.Config.Protocols = new(http.Protocols)
	h.server.Config.Protocols.SetHTTP1(true)
	h.server.Config.Protocols.SetUnencryptedHTTP2(true)
	h.server.Start()
	t.Cleanup(h.server.Close)
	return h
}

func (h *replica) take(w http.ResponseWriter, r *http.Request) {
	if h.refuse != nil {
		if err := h.refuse(r); err != nil {
			rpcerr.WriteHTTP(w, r, err)
			return
		}
	}
	if r.Header.Get("Upgrade") == "websocket" {
		socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"leat-tunnel.1"}})
		if err != nil {
			return
		}
		socket.SetReadLimit(-1)
		h.use(websocket.NetConn(context.Background(), socket, websocket.MessageBinary), r.Header, "websocket")
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: leat-tunnel/1\r\n\r\n"); err == nil {
		h.use(conn, r.Header, "upgrade")
	}
}

// use begins HTTP/2 in reverse.
func (h *replica) use(conn net.Conn, header http.Header, via string) *hubConn {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols: protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}
	client, err := transport.NewClientConn(context.Background(), "http", "agent:80")
	if err != nil {
		_ = conn.Close()
		return nil
	}
	c := &hubConn{
		http: client, raw: conn, header: header, via: via,
		link: tunnelv1connect.NewLinkServiceClient(&http.Client{Transport: client}, "http://agent"),
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	h.conns <- c
	return c
}

// next waits for the agent's next connection and introduces the hub.
func (h *replica) next(interval time.Duration, replicas int32) *hubConn {
	h.t.Helper()
	c := await.Value(h.t, "a connection", h.conns)
	_, err := c.link.Attach(h.t.Context(), &tunnelv1.AttachRequest{
		Replica: h.name, Replicas: replicas, HeartbeatInterval: durationpb.New(interval),
	})
	if err != nil {
		h.t.Fatalf("attach: %v", err)
	}
	return c
}

// streams is the hub's side of the last transport.
type streams struct {
	tunnelv1connect.UnimplementedTunnelServiceHandler

	replica *replica
}

func (s *streams) Connect(ctx context.Context, stream *connect.BidiStream[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse]) error {
	if s.replica.refuse != nil {
		if err := s.replica.refuse(&http.Request{Header: stream.RequestHeader()}); err != nil {
			return err
		}
	}
	if err := stream.Send(&tunnelv1.ConnectResponse{}); err != nil {
		return err
	}
	inside, outside := net.Pipe()
	var copying sync.WaitGroup
	copying.Go(func() {
		buffer := make([]byte, 32<<10)
		for {
			n, err := outside.Read(buffer)
			if err != nil || stream.Send(&tunnelv1.ConnectResponse{Data: buffer[:n]}) != nil {
				return
			}
		}
	})
	go s.replica.use(inside, stream.RequestHeader(), "connect")
	for {
		message, err := stream.Receive()
		if err != nil {
			break
		}
		if _, err := outside.Write(message.GetData()); err != nil {
			break
		}
	}
	_ = outside.Close()
	copying.Wait()
	return ctx.Err()
}

// fakeTokens counts how often a token was dropped.
type fakeTokens struct {
	renew func() error // nil: nothing happens

	mu      sync.Mutex
	version int
}

func (f *fakeTokens) Renew(context.Context) error {
	if f.renew == nil {
		return nil
	}
	return f.renew()
}

func (f *fakeTokens) Token(context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprint("token-", f.version), nil
}

func (f *fakeTokens) Invalidate() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
}

// runUplink runs an uplink until the test ends.
func runUplink(t *testing.T, change func(*uplink.Params)) *uplink.Uplink {
	t.Helper()
	p := uplink.Params{
		Tokens: &fakeTokens{}, Version: "v1", Logger: slog.New(slog.DiscardHandler),
		Handler:   http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }),
		Reconnect: backoff.Policy{Initial: time.Millisecond, Max: 20 * time.Millisecond, Multiplier: 2},
	}
	change(&p)
	u, err := uplink.New(p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- u.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return u
}

func fixed(url string) func() string { return func() string { return url } }

func (c *hubConn) get(t *testing.T, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://agent"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.http.RoundTrip(request)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return string(body)
}

// ended waits until the agent has closed the connection.
func (c *hubConn) ended(t *testing.T) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://agent/", nil)
	if err != nil {
		t.Fatal(err)
	}
	await.True(t, "the agent to close the connection", func() bool {
		response, err := c.http.RoundTrip(request)
		if err != nil {
			return true
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		return false
	})
}

func noLeaks(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
}

// TestTokenOfAnotherProcess has the hub refuse a token that another process has used.
func TestTokenOfAnotherProcess(t *testing.T) {
	noLeaks(t)
	h := startReplica(t, "r1", func(r *http.Request) error {
		if r.Header.Get("Authorization") == "Bearer token-0" {
			return rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID, "used twice")
		}
		return nil
	})
	runUplink(t, func(p *uplink.Params) { p.URL = fixed(h.server.URL) })
	if got := h.next(time.Minute, 1).header.Get("Authorization"); got != "Bearer token-1" {
		t.Errorf("got %q, want another token", got)
	}
}

// startBalancer forwards connections to the replicas, a number of them to each in turn, and returns
// its URL.
func startBalancer(t *testing.T, row int, replicas ...*replica) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var passing sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		passing.Wait()
	})
	passing.Go(func() {
		for turn := 0; ; turn++ {
			front, err := listener.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", replicas[turn/row%len(replicas)].server.Listener.Addr().String())
			if err != nil {
				_ = front.Close()
				continue
			}
			for from, to := range map[net.Conn]net.Conn{front: back, back: front} {
				passing.Go(func() {
					_, _ = io.Copy(to, from)
					_ = to.Close()
				})
			}
		}
	})
	return "http://" + listener.Addr().String()
}

// TestTwoReplicas has a load balancer that sends the agent to either replica.
func TestTwoReplicas(t *testing.T) {
	noLeaks(t)
	avoid := func(name string) func(*http.Request) error {
		return func(r *http.Request) error {
			for _, avoided := range r.Header["Leat-Avoid-Replica"] {
				if avoided == name {
					return rpcerr.New(connect.CodeAlreadyExists, errorsv1.Reason_REASON_ALREADY_EXISTS, "here already")
				}
			}
			return nil
		}
	}
	replicas := []*replica{startReplica(t, "r0", avoid("r0")), startReplica(t, "r1", avoid("r1"))}
	balancer := startBalancer(t, 3, replicas...) // not by turns, as it happens
	runUplink(t, func(p *uplink.Params) { p.URL = fixed(balancer) })
	first := replicas[0].next(time.Minute, 1)
	select {
	case <-replicas[1].conns:
		t.Fatal("a second connection came to a hub of one replica")
	default:
	}
	if _, err := first.link.Heartbeat(t.Context(), &tunnelv1.HeartbeatRequest{Replicas: 2}); err != nil {
		t.Fatal(err)
	}
	second := replicas[1].next(time.Minute, 2)
	if first.header.Get("Leat-Agent-Instance") != second.header.Get("Leat-Agent-Instance") {
		t.Error("the two connections name different instances")
	}
}

// TestOnlyOneReplicaIsReached has a load balancer that selects by the agent's address, and so leads
// to only one of two replicas. The agent searches for the other one a few times, and not
// continuously.
func TestOnlyOneReplicaIsReached(t *testing.T) {
	noLeaks(t)
	var mu sync.Mutex
	refused := 0
	h := startReplica(t, "r0", func(r *http.Request) error {
		if r.Header.Get("Leat-Avoid-Replica") != "r0" {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		refused++
		return rpcerr.New(connect.CodeAlreadyExists, errorsv1.Reason_REASON_ALREADY_EXISTS, "here already")
	})
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return refused
	}
	runUplink(t, func(p *uplink.Params) { p.URL = fixed(h.server.URL) })
	c := h.next(time.Minute, 2)
	await.True(t, "4 attempts to reach another replica", func() bool { return count() >= 4 })
	for range 200 { // time in which nothing more must happen
		c.get(t, "/")
	}
	if got := count(); got != 4 {
		t.Errorf("got %d attempts to reach another replica, want 4 and then a pause", got)
	}
}

// TestDrainNotice keeps the old connection with its streams until the new one is up.
func TestDrainNotice(t *testing.T) {
	noLeaks(t)
	h := startReplica(t, "r1", nil)
	release := make(chan struct{})
	runUplink(t, func(p *uplink.Params) {
		p.URL = fixed(h.server.URL)
		p.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			if r.URL.Path == "/long" {
				<-release
			}
			_, _ = io.WriteString(w, "done")
		})
	})
	old := h.next(time.Minute, 1)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://agent/long", nil)
	if err != nil {
		t.Fatal(err)
	}
	long, err := old.http.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = long.Body.Close() }()
	notice := &tunnelv1.DrainNotice{ReconnectAfter: durationpb.New(time.Millisecond)}
	if _, err := old.link.Heartbeat(t.Context(), &tunnelv1.HeartbeatRequest{Drain: notice}); err != nil {
		t.Fatal(err)
	}
	next := h.next(time.Minute, 1)
	if got := next.get(t, "/short"); got != "done" {
		t.Errorf("on the new connection: got %q, want done", got)
	}
	close(release)
	if body, err := io.ReadAll(long.Body); err != nil || string(body) != "done" {
		t.Errorf("on the old connection: got %q, %v, want its answer whole", body, err)
	}
	old.ended(t)
}

// TestF14SilentHub has a hub that promises heartbeats and sends none: the link may be half open.
func TestF14SilentHub(t *testing.T) {
	noLeaks(t)
	h := startReplica(t, "r1", nil)
	runUplink(t, func(p *uplink.Params) { p.URL = fixed(h.server.URL) })
	h.next(50*time.Millisecond, 1)
	h.next(time.Minute, 1) // it came again, because nothing was heard
}

// TestHeartbeatShowsTheToken answers the hub's request for the token.
func TestHeartbeatShowsTheToken(t *testing.T) {
	noLeaks(t)
	h := startReplica(t, "r1", nil)
	runUplink(t, func(p *uplink.Params) { p.URL = fixed(h.server.URL) })
	c := h.next(time.Minute, 1)
	for _, want := range []bool{false, true} {
		res, err := c.link.Heartbeat(t.Context(), &tunnelv1.HeartbeatRequest{WantToken: want})
		if err != nil || (res.GetAccessToken() == "token-0") != want {
			t.Errorf("want_token %v: got %q, %v", want, res.GetAccessToken(), err)
		}
	}
}
