// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/internal/kit/timeouts"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// LinkParams set how a replica keeps its connections alive. All are required.
type LinkParams struct {
	// Replica names this replica.
	Replica string
	// Replicas returns how many replicas there are at the moment. It is called often and must not
	// block.
	Replicas func() int
	// Interval is the time between two heartbeats on a connection. Proxies between agents and hubs
	// often end connections on which nothing was seen for 30 or 60 s, and do not count HTTP/2's pings.
	Interval time.Duration
	// Timeout is how long an agent may take to answer one.
	Timeout time.Duration
	// TokenGrace is how long a connection lives on after its token. Agents obtain tokens from the
	// distributor, whose outage people should not notice at the tunnel.
	TokenGrace time.Duration
	// Verifier reads the tokens with which agents prolong their connections.
	Verifier identity.Verifier
	// Logger records why connections were ended.
	Logger *slog.Logger
}

// Links keeps connections alive by calls of LinkService: one a connection and interval, and nothing
// in memory meanwhile but a timer.
type Links struct {
	params LinkParams
	client tunnelv1connect.LinkServiceClient
}

// NewLinks returns links for one replica.
func NewLinks(params LinkParams) *Links {
	return &Links{
		params: params,
		// To pack a few bytes costs an agent most of a megabyte of memory, each time.
		client: tunnelv1connect.NewLinkServiceClient(&http.Client{Transport: overConn{}}, "http://"+agentHost,
			connect.WithAcceptCompression("gzip", nil, nil)),
	}
}

// agentHost is the name of an agent on its own connection.
const agentHost = "agent"

type connKey struct{}

// overConn sends a request over the connection in its context, so that one client serves all
// connections.
type overConn struct{}

// RoundTrip implements http.RoundTripper.
func (overConn) RoundTrip(req *http.Request) (*http.Response, error) {
	conn, ok := req.Context().Value(connKey{}).(*Conn)
	if !ok {
		return nil, errors.New("no connection in the context")
	}
	return conn.RoundTrip(req)
}

// attach introduces the replica to the agent, and keeps the connection alive from then on. An agent
// that knows no LinkService has answered as well.
func (l *Links) attach(ctx context.Context, conn *Conn, info session.Info) error {
	_, err := l.client.Attach(context.WithValue(ctx, connKey{}, conn), &tunnelv1.AttachRequest{
		Replica: l.params.Replica, Epoch: int64(info.Epoch), Replicas: int32(l.params.Replicas()),
		HeartbeatInterval: durationpb.New(l.params.Interval),
	})
	switch {
	case connect.CodeOf(err) == connect.CodeUnimplemented:
		conn.endWith(info, l.params.TokenGrace)
		return nil
	case err != nil:
		return fmt.Errorf("attach agent: %w", err)
	}
	conn.link = &link{links: l, conn: conn, info: info, expires: info.TokenExpires}
	conn.link.start()
	return nil
}

// endWith ends a connection when its token expires, for an agent that cannot show another one. The
// agent then connects again.
func (c *Conn) endWith(info session.Info, grace time.Duration) {
	if info.TokenExpires.IsZero() {
		return
	}
	end := time.AfterFunc(time.Until(info.TokenExpires)+grace, func() { _ = c.Close() })
	c.OnClose(func() { end.Stop() })
}

// link is the heartbeat of one connection.
type link struct {
	links *Links
	conn  *Conn
	info  session.Info

	expires time.Time // of the last token that the agent has shown; only beat uses it

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// start waits for a random part of the interval, so that the heartbeats of agents that came
// together spread out.
func (l *link) start() {
	l.mu.Lock()
	l.timer = time.AfterFunc(rand.N(l.links.params.Interval), l.beat)
	l.mu.Unlock()
	l.conn.OnClose(l.stop)
}

func (l *link) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	l.timer.Stop()
}

func (l *link) again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.timer.Reset(timeouts.Align(l.links.params.Interval))
	}
}

// beat ends a connection whose agent does not answer in time, or has no valid token any more.
func (l *link) beat() {
	ctx, cancel := context.WithTimeout(context.Background(), l.links.params.Timeout)
	defer cancel()
	err := l.exchange(ctx)
	if err == nil {
		err = l.expired()
	}
	if err != nil {
		l.links.params.Logger.WarnContext(ctx, "agent connection ended by the hub", sessionAttrs(l.info, slog.String("error", err.Error()))...)
		_ = l.conn.Close()
		return
	}
	l.again()
}

// exchange sends a heartbeat. Any answer is a sign of life.
func (l *link) exchange(ctx context.Context) error {
	wantToken := time.Until(l.expires) < l.links.renewBefore()
	res, err := l.send(ctx, &tunnelv1.HeartbeatRequest{WantToken: wantToken})
	switch {
	case errors.Is(err, context.DeadlineExceeded) || connect.CodeOf(err) == connect.CodeDeadlineExceeded:
		return fmt.Errorf("agent does not answer: %w", err)
	case err == nil && res.GetAccessToken() != "":
		l.prolong(ctx, res.GetAccessToken())
	}
	return nil
}

// renewBefore leaves time for several heartbeats, should the agent or the hub be unable to renew a
// token at first.
func (l *Links) renewBefore() time.Duration { return 10 * l.params.Interval }

// prolong takes a token that is the same cluster's.
func (l *link) prolong(ctx context.Context, token string) {
	caller, err := l.links.params.Verifier.Verify(ctx, token)
	if err != nil || caller.Kind != identity.KindCluster || caller.Name != l.info.Cluster || caller.UID != l.info.ClusterUID {
		l.links.params.Logger.WarnContext(ctx, "agent connection not prolonged", sessionAttrs(l.info)...)
		return
	}
	l.expires = caller.Expires
}

// expired is an error once the agent's right to be connected has ended.
func (l *link) expired() error {
	if l.expires.IsZero() || time.Since(l.expires) < l.links.params.TokenGrace {
		return nil
	}
	return errors.New("the agent's token has expired, and it has shown no other one")
}

// send sends a heartbeat.
func (l *link) send(ctx context.Context, request *tunnelv1.HeartbeatRequest) (*tunnelv1.HeartbeatResponse, error) {
	request.Replicas = int32(l.links.params.Replicas())
	return l.links.client.Heartbeat(context.WithValue(ctx, connKey{}, l.conn), request)
}
