// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/config"
	"github.com/leatdev/leat/internal/crossorigin"
	"github.com/leatdev/leat/internal/h2"
	"github.com/leatdev/leat/internal/memlimit"
	"github.com/leatdev/leat/internal/rpc"
	"github.com/leatdev/leat/internal/serve"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/tunnel/internal/kubeproxy"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
	"github.com/leatdev/leat/services/tunnel/internal/reverse"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// defaultDrainTimeout is the serve package's.
const defaultDrainTimeout = 25 * time.Second

// defaultPeerListenAddr uses the port that the manifests open only to the tunnel's own pods.
const defaultPeerListenAddr = ":8705"

// defaultMaxConnects brings the agents of a replica that held 10,000 back within half a minute.
const defaultMaxConnects = 500

// These constants derive the default of [Config.BufferMemory]: a quarter of what the process may use. The garbage
// collector may need the same amount again. Histories of shared watches, audit records, agents' connections and running
// requests need the rest.
const (
	bufferMemoryDivisor  = 4
	bufferMemoryLeast    = 32 << 20
	bufferMemoryFallback = 512 << 20
	// uploadMemoryDivisor divides the bound for answers to get the bound for uploads: half as much.
	uploadMemoryDivisor = 2
)

// defaultHeartbeatInterval is half of the shortest time after which intermediaries commonly end a silent connection.
const defaultHeartbeatInterval = 15 * time.Second

// agentsPingAfter is the silence after which an agent sends PINGs, which cannot be set.
const agentsPingAfter = 20 * time.Second

// defaultHeartbeatTimeout makes a dead agent known within two intervals.
const defaultHeartbeatTimeout = 15 * time.Second

// defaultTokenGrace is as long as a token: an outage of the distributor, who gives them out, is not to be noticed at the tunnel.
const defaultTokenGrace = time.Hour

// defaultRecheckInterval bounds how long a running watch outlives its permission.
const defaultRecheckInterval = time.Minute

// defaultStallTimeout is longer than any pause of a reader that means to go on.
const defaultStallTimeout = 2 * time.Minute

// Config is what the tunnel can be told. A zero limit, age or window means its default.
type Config struct {
	// Serve and Telemetry are the settings that all services have.
	Serve     serve.Config
	Telemetry telemetry.Config
	// DistributorURL is the base URL of the distributor, which publishes the keys of tokens and decides about access.
	// Required.
	DistributorURL string
	// DistributorCAFile holds the certificates to trust for it, in PEM. Empty means those of the system.
	DistributorCAFile string
	// DistributorTransport is used instead of a network connection to the distributor when it is set, as tests do. Not a flag.
	DistributorTransport http.RoundTripper
	// Service is how the services of the hub authenticate to each other. Required.
	Service rpc.ServiceConfig

	// RedisURL is where replicas share the routes to agents. Empty: this is the only replica.
	RedisURL string
	// RedisCAFile holds the PEM certificates to trust for a RedisURL with TLS. Empty: the system's.
	RedisCAFile string
	// AdvertiseURL is the URL at which the other replicas reach this one's peer listener. Required with RedisURL.
	AdvertiseURL string
	// PeerListenAddr is host:port of the listener for other replicas. It uses the certificate of the public listener,
	// and serves only if RedisURL is set. Empty means :8705.
	PeerListenAddr string
	// PeerListener replaces PeerListenAddr if it is set. Not a flag.
	PeerListener net.Listener
	// PeerCAFile holds the certificates to trust for replicas at https, in PEM. Empty means those of the system.
	PeerCAFile string

	// MaxStreamsPerCluster and MaxStreamsPerUser bound the requests under way.
	MaxStreamsPerCluster int
	MaxStreamsPerUser    int
	// MaxConnectionsPerCluster bounds an agent's connections.
	MaxConnectionsPerCluster int
	// MaxConnectsPerSecond bounds how many connections agents open at this replica in a second.
	MaxConnectsPerSecond int
	// StreamWindow is how much of one unread response the hub takes at first, MaxStreamWindow how much when its reader keeps up with a
	// distant agent.
	StreamWindow    config.Bytes
	MaxStreamWindow config.Bytes
	// BufferMemory bounds the bytes that were received from all agents and not yet read. Uploads over HTTP/2 may hold
	// half as much in addition. Zero means a quarter of GOMEMLIMIT or of the container's limit, whichever is less, and
	// 512 MiB without either.
	BufferMemory config.Bytes
	// PingAfter is the silence after which an agent is asked whether it lives, PingTimeout how long it may take.
	PingAfter   time.Duration
	PingTimeout time.Duration
	// HeartbeatInterval is how often something is said on each agent's connection, HeartbeatTimeout how long the agent may take to
	// answer before it is taken for gone.
	HeartbeatInterval time.Duration
	HeartbeatTimeout  time.Duration
	// TokenGrace is how long an agent's connection lives on when its access token has expired and the agent shows no other one.
	TokenGrace time.Duration
	// AccessMaxAge is the longest life of a permission, AccessStaleAge its life while the distributor does not answer.
	AccessMaxAge   time.Duration
	AccessStaleAge time.Duration
	// RecheckInterval is how often the permission of a running request is asked for again.
	RecheckInterval time.Duration
	// StallTimeout is how long a caller may take nothing of an answer that waits before its request is ended.
	StallTimeout time.Duration
	// AllowedOrigins are those whose web pages may call, such as https://ui.example.com. None: only pages of the hub's own.
	AllowedOrigins []string

	// AllowLocalAgents lets agents be dialled at loopback and link-local addresses: for tests and development.
	AllowLocalAgents bool

	// Load says how clusters are spared and how much may be moved.
	Load Load

	// ClusterDomain gives each cluster a host of its own, {name}.ClusterDomain. Empty means that there are paths only.
	ClusterDomain string

	// Audit says where audit records go.
	Audit AuditConfig
	// Record says which sessions are recorded.
	Record RecordConfig
}

// Bind binds the fields.
func (c *Config) Bind(s *config.Set) {
	c.Serve.Bind(s)
	c.Telemetry.Bind(s)
	limits, ages, connections := session.DefaultLimits(), policy.DefaultCacheParams(nil), reverse.DefaultSettings()
	s.Group("Tunnel")
	s.String(&c.DistributorURL, "distributor-url", "", "base URL of the distributor: keys of tokens, and who may reach what")
	s.String(&c.DistributorCAFile, "distributor-ca-file", "", "certificates to trust for the distributor, in PEM")
	c.Service.Bind(s)
	s.String(&c.RedisURL, "redis-url", "",
		"Redis in which all replicas share the routes to agents: redis://…, or redis+sentinel://…, redis+cluster://…; empty: this is the only replica")
	s.String(&c.RedisCAFile, "redis-ca-file", "", "PEM certificates to trust for a Redis with TLS (rediss://…) instead of the system's")
	s.String(&c.AdvertiseURL, "tunnel-advertise-url", "", "where the other replicas reach --tunnel-peer-listen-addr of this one; needed with --redis-url")
	s.String(&c.PeerListenAddr, "tunnel-peer-listen-addr", defaultPeerListenAddr,
		"address that other replicas pass requests to, host:port; not for people or agents")
	s.String(&c.PeerCAFile, "tunnel-peer-ca-file", "", "certificates to trust for other replicas at https, in PEM")
	s.Int(&c.MaxStreamsPerCluster, "tunnel-max-streams-per-cluster", limits.StreamsPerCluster,
		"requests under way to one cluster; one more is answered 429")
	s.Int(&c.MaxStreamsPerUser, "tunnel-max-streams-per-user", limits.StreamsPerUser,
		"requests of one person under way; one more is answered 429")
	s.Int(&c.MaxConnectionsPerCluster, "tunnel-max-connections-per-cluster", limits.SessionsPerCluster,
		"connections of one agent; one more closes the oldest")
	s.Int(&c.MaxConnectsPerSecond, "tunnel-max-connects-per-second", defaultMaxConnects,
		"connections that agents may open at this replica in a second; others wait, or are told when to come again")
	s.Size(&c.StreamWindow, "tunnel-stream-window", config.Bytes(connections.Windows.Initial),
		"how much of one unread response the hub takes at first")
	s.Size(&c.MaxStreamWindow, "tunnel-max-stream-window", config.Bytes(connections.Windows.Max),
		"how much of one unread response the hub takes when its reader keeps up with a distant agent")
	s.Size(&c.BufferMemory, "tunnel-buffer-memory", 0,
		"how much of all answers may be unread at once; beyond it the readers go that have stood still for the longest; uploads may hold "+
			"half as much again; 0: a quarter of GOMEMLIMIT or of the container's limit, 512 MiB without either")
	s.Duration(&c.PingAfter, "tunnel-ping-after", connections.PingAfter, "silence after which an agent is pinged")
	s.Duration(&c.PingTimeout, "tunnel-ping-timeout", connections.PingTimeout, "how long an agent may take to answer a ping")
	s.Duration(&c.HeartbeatInterval, "tunnel-heartbeat-interval", defaultHeartbeatInterval,
		"how often something is said on each agent's connection, which load balancers would end for its silence; must be less than 20s, "+
			"after which agents send PINGs, which some load balancers swallow")
	s.Duration(&c.HeartbeatTimeout, "tunnel-heartbeat-timeout", defaultHeartbeatTimeout,
		"how long an agent may take to answer before its connection is ended")
	s.Duration(&c.TokenGrace, "tunnel-token-grace", defaultTokenGrace,
		"how long an agent stays connected when its access token has expired and it shows no other one")
	s.Duration(&c.AccessMaxAge, "tunnel-access-max-age", ages.PositiveAge, "how long a permission counts without being asked for again")
	s.Duration(&c.AccessStaleAge, "tunnel-access-stale-age", ages.StaleAge,
		"how long a permission counts while the distributor does not answer")
	s.Duration(&c.RecheckInterval, "tunnel-recheck-interval", defaultRecheckInterval,
		"how often the permission of a running request is asked for again")
	s.Duration(&c.StallTimeout, "tunnel-stall-timeout", defaultStallTimeout,
		"how long a person may take no byte of an answer that waits before the request is ended")
	c.Audit.Bind(s)
	c.Record.Bind(s)
	s.Strings(&c.AllowedOrigins, "tunnel-allowed-origins", nil,
		"origins whose web pages may call, such as https://ui.example.com, separated by commas")
	s.Bool(&c.AllowLocalAgents, "allow-local-agents", false,
		"let the hub dial agents at loopback and link-local addresses; for tests and development only")
	c.Load.Bind(s)
	s.String(&c.ClusterDomain, "tunnel-cluster-domain", "",
		"domain below which each cluster has a host of its own, {name}.{domain}, beside /clusters/{name}/")
	s.Check(c.check)
}

func (c *Config) check() error {
	if c.DistributorURL == "" {
		return config.Missing("distributor-url")
	}
	if err := c.Service.Check(); err != nil {
		return err
	}
	if err := c.checkReplicas(); err != nil {
		return err
	}
	if c.ClusterDomain != "" && !kubeproxy.ValidName(strings.ToLower(c.ClusterDomain)) {
		return fmt.Errorf("--tunnel-cluster-domain is %q, want a domain such as clusters.example.com, without scheme, port and outer dots", c.ClusterDomain)
	}
	if _, err := crossorigin.New(c.AllowedOrigins); err != nil {
		return fmt.Errorf("--tunnel-allowed-origins: %w", err)
	}
	for name, value := range map[string]int64{
		"tunnel-max-streams-per-cluster":     int64(c.MaxStreamsPerCluster),
		"tunnel-max-streams-per-user":        int64(c.MaxStreamsPerUser),
		"tunnel-max-connections-per-cluster": int64(c.MaxConnectionsPerCluster),
		"tunnel-max-connects-per-second":     int64(c.MaxConnectsPerSecond),
		"tunnel-stream-window":               int64(c.StreamWindow),
		"tunnel-max-stream-window":           int64(c.MaxStreamWindow),
		"tunnel-buffer-memory":               int64(c.BufferMemory),
		"tunnel-ping-after":                  int64(c.PingAfter),
		"tunnel-ping-timeout":                int64(c.PingTimeout),
		"tunnel-heartbeat-interval":          int64(c.HeartbeatInterval),
		"tunnel-heartbeat-timeout":           int64(c.HeartbeatTimeout),
		"tunnel-token-grace":                 int64(c.TokenGrace),
		"tunnel-access-max-age":              int64(c.AccessMaxAge),
		"tunnel-access-stale-age":            int64(c.AccessStaleAge),
		"tunnel-recheck-interval":            int64(c.RecheckInterval),
		"tunnel-stall-timeout":               int64(c.StallTimeout),
	} {
		if value < 0 {
			return fmt.Errorf("--%s must not be negative", name)
		}
	}
	if err := c.checkHeartbeats(); err != nil {
		return err
	}
	if err := errors.Join(c.Audit.check(), c.Record.check()); err != nil {
		return err
	}
	return c.Load.check()
}

// checkHeartbeats refuses an interval in which agents would come to send PINGs: where those are swallowed, they would take the hub for
// gone.
func (c *Config) checkHeartbeats() error {
	if c.HeartbeatInterval < agentsPingAfter {
		return nil
	}
	return fmt.Errorf("--tunnel-heartbeat-interval is %s, want less than %s: agents that hear nothing for so long send PINGs, which some load "+
		"balancers swallow; choose a shorter one, or leave it unset for %s", c.HeartbeatInterval, agentsPingAfter, defaultHeartbeatInterval)
}

func (c *Config) limits() session.Limits {
	limits := session.DefaultLimits()
	limits.StreamsPerCluster = orDefault(c.MaxStreamsPerCluster, limits.StreamsPerCluster)
	limits.StreamsPerUser = orDefault(c.MaxStreamsPerUser, limits.StreamsPerUser)
	limits.SessionsPerCluster = orDefault(c.MaxConnectionsPerCluster, limits.SessionsPerCluster)
	return limits
}

func (c *Config) connections() h2.Settings {
	settings := reverse.DefaultSettings()
	settings.Windows.Initial = orDefault(int(c.StreamWindow), settings.Windows.Initial)
	settings.Windows.Max = max(orDefault(int(c.MaxStreamWindow), settings.Windows.Max), settings.Windows.Initial)
	settings.PingAfter = orDefault(c.PingAfter, settings.PingAfter)
	settings.PingTimeout = orDefault(c.PingTimeout, settings.PingTimeout)
	return settings
}

// bufferMemory returns the bound of unread bodies in bytes. root is where the process's control group is mounted.
func (c *Config) bufferMemory(root string) int64 {
	if c.BufferMemory > 0 {
		return int64(c.BufferMemory)
	}
	return memlimit.Share{
		Root: root, Divisor: bufferMemoryDivisor, Least: bufferMemoryLeast, Fallback: bufferMemoryFallback,
	}.Bytes()
}

func (c *Config) heartbeatInterval() time.Duration {
	return orDefault(c.HeartbeatInterval, defaultHeartbeatInterval)
}

// heardWithin is how long an agent that lives is silent at most. Agents that come by calls have two layers of HTTP/2: the server's own
// sends no PING before, because something in between could swallow it.
func (c *Config) heardWithin() time.Duration { return c.heartbeatInterval() * 4 / 3 }

func (c *Config) decisions(access policy.Access) policy.CacheParams {
	params := policy.DefaultCacheParams(access)
	params.PositiveAge = orDefault(c.AccessMaxAge, params.PositiveAge)
	params.StaleAge = orDefault(c.AccessStaleAge, params.StaleAge)
	return params
}

func (c *Config) drainTimeout() time.Duration {
	return orDefault(c.Serve.DrainTimeout, defaultDrainTimeout)
}

// sessionGrace lets upgraded connections go on for most of the drain, so that there is time for a last word.
func (c *Config) sessionGrace() time.Duration {
	left := c.drainTimeout()
	if c.RedisURL != "" { // agents and requests move first
		left -= time.Duration(float64(left) * moveShare)
	}
	return left * 4 / 5
}

func orDefault[T int | time.Duration](value, fallback T) T {
	if value == 0 {
		return fallback
	}
	return value
}
