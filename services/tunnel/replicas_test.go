// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
	"github.com/leatdev/leat/services/tunnel/internal/redisroute"
)

// replica is one of several replicas of a hub, behind a wire that can be cut.
type replica struct {
	*hub

	wire  *wire // to it, and from it to Redis
	store *wire
	// address is Redis's; redis is nil when that is embedded.
	address string
	// peers is the wire to its peer listener.
	peers *wire
	redis *redistest.Server
	// changes are the changes of its settings.
	changes []func(*tunnel.Config)
}

// startReplicas starts replicas that share a Redis.
func startReplicas(tb testing.TB, count int, changes ...func(*tunnel.Config)) []*replica {
	tb.Helper()
	redis := redistest.Start(tb)
	return startReplicasOn(tb, redis.Addr(), redis, count, changes...)
}

// drainFor gives a drain so long that nothing which a test does meanwhile comes too late.
func drainFor(timeout time.Duration) func(*tunnel.Config) {
	return func(cfg *tunnel.Config) { cfg.Serve.DrainTimeout = timeout }
}

func startReplicasOn(tb testing.TB, address string, redis *redistest.Server, count int, changes ...func(*tunnel.Config)) []*replica {
	tb.Helper()
	var replicas []*replica
	for range count {
		r := &replica{address: address, redis: redis, changes: changes}
		join := r.join(tb)
		if len(replicas) == 0 {
			r.hub = startHub(tb, join)
		} else {
			r.hub = replicas[0].replica(join)
		}
		r.settle()
		replicas = append(replicas, r)
	}
	return replicas
}

// another starts one more replica.
func (r *replica) another() *replica {
	r.tb.Helper()
	next := &replica{address: r.address, redis: r.redis, changes: r.changes}
	next.hub = r.replica(next.join(r.tb))
	next.settle()
	return next
}

// join makes a replica one of the replicas that share the Redis.
func (r *replica) join(tb testing.TB) func(*tunnel.Config) {
	return func(cfg *tunnel.Config) {
		r.wire = newWire(tb, cfg.Serve.Listener.Addr().String())
		r.store = newWire(tb, r.address)
		cfg.PeerListener = listen(tb)
		r.peers = newWire(tb, cfg.PeerListener.Addr().String())
		cfg.RedisURL, cfg.AdvertiseURL = "redis://"+r.store.addr+"/0", "http://"+r.peers.addr
		for _, change := range r.changes {
			change(cfg)
		}
	}
}

// settle has people and agents come through the wire, too.
func (r *replica) settle() { r.addr = r.wire.addr }

// die cuts a replica off from everything, as the loss of its machine does.
func (r *replica) die() {
	r.store.kill()
	r.peers.kill()
	r.wire.kill()
}

// wire passes connections on until it is cut, as if the machine behind it was gone.
type wire struct {
	addr     string
	listener net.Listener

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
	going sync.WaitGroup
}

func newWire(tb testing.TB, to string) *wire {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	w := &wire{addr: listener.Addr().String(), listener: listener}
	w.going.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			w.pass(from, to)
		}
	})
	tb.Cleanup(w.kill)
	return w
}

func (w *wire) pass(from net.Conn, to string) {
	behind, err := net.Dial("tcp", to)
	if err != nil {
		_ = from.Close()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		_ = from.Close()
		_ = behind.Close()
		return
	}
	w.conns = append(w.conns, from, behind)
	for _, ends := range [][2]net.Conn{{from, behind}, {behind, from}} {
		w.going.Go(func() {
			if _, err := io.Copy(ends[1], ends[0]); err != nil {
				_ = ends[0].Close()
			}
			if half, ok := ends[1].(*net.TCPConn); ok {
				_ = half.CloseWrite() // the other direction stays open
			}
		})
	}
}

// kill cuts every connection and takes no other.
func (w *wire) kill() {
	_ = w.listener.Close()
	w.mu.Lock()
	w.cut = true
	for _, conn := range w.conns {
		_ = conn.Close()
	}
	w.mu.Unlock()
	w.going.Wait()
}

// reaches waits until requests to a cluster arrive there through a replica.
func (r *replica) reaches(user, cluster string) {
	r.tb.Helper()
	r.reachesWith(user, cluster, http.StatusOK)
}

func (r *replica) reachesWith(user, cluster string, want int) {
	r.tb.Helper()
	c := client(r.tb, true)
	await.True(r.tb, "a way to "+cluster, func() bool {
		status, _ := r.get(c, user, cluster, "/")
		return status == want
	})
}

func TestRequestsReachAgentsOfOtherReplicas(t *testing.T) {
	replicas := startReplicas(t, 2)
	people, agents := replicas[0], replicas[1]
	people.access.grant("ada", "demo", "leat:viewers")
	agents.agent("demo", func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if strings.HasPrefix(name, "Leat-Hop") || name == "Authorization" {
				t.Errorf("the agent got the header %s", name)
			}
		}
		if r.Header.Get("Impersonate-User") != "ada" {
			t.Errorf("got user %q, want ada", r.Header.Get("Impersonate-User"))
		}
		echo(w, r)
	})
	people.reaches("ada", "demo")
	for _, http2 := range []bool{false, true} {
		c := client(t, http2)
		res, body := people.do(c, people.request(t.Context(), http.MethodPost, "ada", "demo", "/pods?x=%2f", strings.NewReader("12345")))
		if res.StatusCode != 200 || body != "POST /pods?x=%2f 12345" {
			t.Errorf("http2=%v: got %d %q", http2, res.StatusCode, body)
		}
		for name := range res.Header {
			if strings.HasPrefix(name, "Leat-Hop") {
				t.Errorf("the caller got the header %s", name)
			}
		}
	}
	for line := range strings.Lines(agents.audit.String()) {
		if !strings.Contains(line, `"phase":"hop"`) {
			t.Errorf("the agents' replica has audited what the other one has:\n%s", line)
		}
	}
	if !strings.Contains(people.audit.String(), `"connection":"c-demo"`) {
		t.Errorf("the audit log does not name the connection:\n%s", people.audit)
	}
}

// TestOnMiniredis runs replicas on the Redis that "leat up" embeds.
func TestOnMiniredis(t *testing.T) {
	replicas := startReplicasOn(t, redistest.Mini(t).Addr(), nil, 2)
	people, agents := replicas[0], replicas[1]
	people.access.grant("ada", "demo")
	agents.agent("demo", echo)
	people.reaches("ada", "demo")
	agents.stop()
	if err := <-agents.done; err != nil {
		t.Errorf("Run: %v", err)
	}
	agents.done <- nil
	if status, body := people.get(client(t, true), "ada", "demo", "/"); status != 503 || !strings.Contains(body, "AGENT_OFFLINE") {
		t.Errorf("after the end of the agent's replica: got %d %s, want 503 AGENT_OFFLINE", status, body)
	}
}

// TestF45ClustersOfOneNameAreNotConfusedOverReplicas has an agent connect with another uid than the
// one that people may reach.
func TestF45ClustersOfOneNameAreNotConfusedOverReplicas(t *testing.T) {
	replicas := startReplicas(t, 2)
	people, agents := replicas[0], replicas[1]
	people.access.grant("ada", "demo")
	people.access.grant("ada", "demo2")
	agents.agent("demo", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "demo") })
	agents.agent("demo2", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "demo2") })
	people.reaches("ada", "demo")
	people.reaches("ada", "demo2")
	c := client(t, true)
	for _, cluster := range []string{"demo", "demo2"} {
		if status, body := people.get(c, "ada", cluster, "/"); status != 200 || body != cluster {
			t.Errorf("got %d %s from %s", status, body, cluster)
		}
	}
	people.access.grantUID("eve", "demo", "uid-demo-of-before")
	if status, body := people.get(c, "eve", "demo", "/"); status != 503 || !strings.Contains(body, "AGENT_OFFLINE") {
		t.Errorf("got %d %s, want 503 AGENT_OFFLINE", status, body)
	}
}

// TestSecHopRefusesStrangers sends hops to the peer listener as every kind of caller except another
// replica, and to the public listener as a replica.
func TestSecHopRefusesStrangers(t *testing.T) {
	h := startReplicas(t, 1)[0]
	h.access.grant("ada", "demo")
	h.agent("demo", echo)
	c := client(t, true)
	sessions, err := h.service().ListSessions(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	own := identity.ReplicaAudience(identity.ServiceTunnel, sessions.GetSessions()[0].GetReplica())
	tunnel := identity.ServiceTunnel
	for name, token := range map[string]string{
		"nobody": "", "a person": h.user("ada", "leat:admins"), "an agent": h.cluster("demo"),
		"the distributor":                serviceToken(t, identity.ServiceDistributor, own),
		"gitcache":                       serviceToken(t, identity.ServiceGitCache, own),
		"a replica, for another replica": serviceToken(t, tunnel, identity.ReplicaAudience(tunnel, "another")),
		"a replica, for all of them":     serviceToken(t, tunnel, tunnel),
		"a replica, for the distributor": serviceToken(t, tunnel, identity.ServiceDistributor),
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+h.peers.addr+"/tunnel/v1/hop/kubernetes/api", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Leat-Hop", "another")
		req.Header.Set("Leat-Hop-Cluster", "demo")
		req.Header.Set("Impersonate-User", "root")
		if res, body := h.do(c, req); res.StatusCode != http.StatusForbidden || body != "" {
			t.Errorf("%s: got %d %q, want 403 and nothing else", name, res.StatusCode, body)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"a request that was passed on twice": func(r *http.Request) { r.Header.Add("Leat-Hop", "a third") },
		"a hop to a hop":                     func(r *http.Request) { r.URL.Path = "/tunnel/v1/hop/tunnel/v1/hop/kubernetes/api" },
		"a hop without a mark":               func(r *http.Request) { r.Header.Del("Leat-Hop") },
		"a hop to nobody":                    func(r *http.Request) { r.Header.Del("Leat-Hop-Cluster") },
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+h.peers.addr+"/tunnel/v1/hop/kubernetes/api", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+serviceToken(t, tunnel, own))
		req.Header.Set("Leat-Hop", "another")
		req.Header.Set("Leat-Hop-Cluster", "demo")
		req.Header.Set("Impersonate-User", "mallory")
		if res, body := h.do(c, req); res.StatusCode != 200 || body != "GET /api " {
			t.Errorf("a hop as it must be: got %d %q", res.StatusCode, body)
		}
		if log := h.audit.String(); !strings.Contains(log, `"phase":"hop"`) || !strings.Contains(log, `"subject":"service:tunnel","subject_uid":"another"`) ||
			!strings.Contains(log, `"impersonated_user":"mallory"`) {
			t.Errorf("the replica that has the connection has not recorded the hop:\n%s", log)
		}
		change(req)
		if res, _ := h.do(c, req); res.StatusCode != http.StatusForbidden {
			t.Errorf("%s: got %d, want 403", name, res.StatusCode)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+h.addr+"/tunnel/v1/hop/kubernetes/api", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+serviceToken(t, tunnel, own))
	req.Header.Set("Leat-Hop", "another")
	req.Header.Set("Leat-Hop-Cluster", "demo")
	if res, _ := h.do(c, req); res.StatusCode != http.StatusNotFound {
		t.Errorf("a good hop to the public listener: got %d, want 404", res.StatusCode)
	}
}

// TestSecForgedRoutesLeadNowhere has an attacker with write access to Redis add routes and replicas
// that lead to the attacker's server.
func TestSecForgedRoutesLeadNowhere(t *testing.T) {
	h := startReplicas(t, 1)[0]
	h.access.grant("ada", "demo")
	reached := make(chan struct{}, 1)
	caught := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case reached <- struct{}{}:
		default:
		}
	}))
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	caught.Config.Protocols = protocols
	caught.Start()
	t.Cleanup(caught.Close)
	store := h.redis.Client(t)
	ctx, later := t.Context(), float64(time.Now().Add(time.Hour).UnixMilli())
	store.ZAdd(ctx, redisroute.Prefix+"replicas", redis.Z{Score: later, Member: "evil"})
	var server map[string]string
	await.True(t, "the row of the replica", func() bool {
		server = store.HGetAll(ctx, redisroute.Prefix+"urls").Val()
		return len(server) == 1
	})
	for _, genuine := range server {
		// The row has the form of the genuine one, with the genuine signature and without one.
		parts := strings.Fields(genuine)
		for _, row := range []string{parts[0] + " " + parts[1] + " " + caught.URL, parts[0] + " " + caught.URL} {
			store.HSet(ctx, redisroute.Prefix+"urls", "evil", row)
			store.HSet(ctx, redisroute.Prefix+"routes:demo", "r", `9999999999999999 evil {"uid":"uid-demo","connection":"c"}`)
			store.Publish(ctx, redisroute.Prefix+"announcements",
				`9999999999999999 {"uid":"uid-demo","connection":"c","id":"r","cluster":"demo","replica":"evil","url":"`+row+`"}`)
			if status, body := h.get(client(t, true), "ada", "demo", "/"); status != 503 || !strings.Contains(body, "AGENT_OFFLINE") {
				t.Errorf("got %d %s, want 503 AGENT_OFFLINE", status, body)
			}
			if _, err := h.service().ListSessions(ctx, nil); err != nil {
				t.Errorf("list sessions: %v", err)
			}
		}
	}
	select {
	case <-reached:
		t.Error("the forger's server was called")
	default:
	}
}

// TestRedisGone: local connections and known routes continue, and the rest is refused at once.
func TestRedisGone(t *testing.T) {
	replicas := startReplicas(t, 2)
	people, agents := replicas[0], replicas[1]
	for _, cluster := range []string{"here", "known", "unknown"} {
		people.access.grant("ada", cluster)
	}
	people.agent("here", echo)
	agents.agent("known", echo)
	agents.agent("unknown", echo)
	people.reaches("ada", "known")
	agents.reaches("ada", "here")
	people.redis.Kill(t)
	c := client(t, true)
	for _, cluster := range []string{"here", "known"} {
		if status, body := people.get(c, "ada", cluster, "/"); status != 200 {
			t.Errorf("%s: got %d %s, want 200", cluster, status, body)
		}
	}
	if status, body := people.get(c, "ada", "unknown", "/"); status != 503 || !strings.Contains(body, "DEPENDENCY_UNAVAILABLE") {
		t.Errorf("got %d %s, want 503 DEPENDENCY_UNAVAILABLE", status, body)
	}
	people.agent("unknown", echo) // connects here while Redis is gone
	people.reaches("ada", "unknown")
	// A Redis that is back and empty learns everything again.
	people.redis.Restart(t)
	agents.reaches("ada", "unknown")
	people.agentWith(agenttest.Options{ID: "later", Handler: http.HandlerFunc(echo)}, "known")
	agents.reaches("ada", "known")
}

// TestWatchOverAHopEndsCleanly drains the replica that has the agent, under a watch from another
// one.
func TestWatchOverAHopEndsCleanly(t *testing.T) {
	replicas := startReplicas(t, 2)
	people, agents := replicas[0], replicas[1]
	people.access.grant("ada", "demo")
	agents.agentWith(agenttest.Options{ID: "x", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "event\n")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Query().Has("watch") {
			<-r.Context().Done()
		}
	})}, "demo")
	people.reaches("ada", "demo")
	res, err := client(t, false).Do(people.request(t.Context(), http.MethodGet, "ada", "demo", "/api/v1/pods?watch=1", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	reader := bufio.NewReader(res.Body)
	if line, err := reader.ReadString('\n'); err != nil || line != "event\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	agents.stop()
	if rest, err := io.ReadAll(reader); err != nil || len(rest) != 0 {
		t.Errorf("got %q, %v, want a clean end", rest, err)
	}
}

// TestCallerOverAHopWhoGoesAway cancels a request whose body continues.
func TestCallerOverAHopWhoGoesAway(t *testing.T) {
	replicas := startReplicas(t, 2)
	people, agents := replicas[0], replicas[1]
	people.access.grant("ada", "demo")
	began, ended := make(chan struct{}, 1), make(chan struct{})
	agents.agent("demo", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return
		}
		began <- struct{}{}
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		close(ended)
	})
	people.reaches("ada", "demo")
	ctx, cancel := context.WithCancel(t.Context())
	body, writer := io.Pipe()
	failed := make(chan error, 1)
	go func() {
		res, err := client(t, true).Do(people.request(ctx, http.MethodPost, "ada", "demo", "/", body))
		if err == nil {
			_ = res.Body.Close()
		}
		failed <- err
	}()
	if _, err := io.WriteString(writer, "some"); err != nil {
		t.Fatal(err)
	}
	<-began
	cancel()
	<-failed
	await.Closed(t, "the end of the agent's request", ended)
}
