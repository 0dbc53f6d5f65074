// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/runtime/auditout"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/crossorigin"
	"github.com/leatdev/leat/internal/runtime/h2"
	"github.com/leatdev/leat/internal/runtime/memlimit"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/tunnel/internal/kubeproxy"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
	"github.com/leatdev/leat/services/tunnel/internal/reverse"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// scope names this service's traces and metrics.
const scope = "github.com/leatdev/leat/services/tunnel"

// program begins the names of the service's audit settings.
const program = "tunnel"

// Config holds the settings of the tunnel. [Config.Bind] sets every default: a zero field does not
// mean one.
type Config struct {
	// Serve and Telemetry are the settings that all services have.
	Serve     serve.Config
	Telemetry telemetry.Config
	// DistributorURL is the base URL of the distributor, which publishes the keys of tokens and
	// decides about access. Required.
	DistributorURL string
	// DistributorCAFile holds the certificates to trust for it, in PEM. Empty means the system's.
	DistributorCAFile string
	// DistributorTransport is used instead of a network connection to the distributor when it is
	// set, as tests do. Not a flag.
	DistributorTransport http.RoundTripper
	// Service is how the services of the hub authenticate to each other. Required.
	Service rpc.ServiceConfig

	// RedisURL is where replicas share the routes to agents. Empty: this is the only replica.
	RedisURL string
	// RedisCAFile holds the PEM certificates to trust for a RedisURL with TLS. Empty: the system's.
	RedisCAFile string
	// AdvertiseURL is the URL at which the other replicas reach this one's peer listener. Required
	// with RedisURL.
	AdvertiseURL string
	// PeerListenAddr is host:port of the listener for other replicas. It uses the certificate of
	// the public listener, and serves only if RedisURL is set.
	PeerListenAddr string
	// PeerListener replaces PeerListenAddr if it is set. Not a flag.
	PeerListener net.Listener
	// PeerCAFile holds the certificates to trust for replicas at https, in PEM. Empty means the
	// system's.
	PeerCAFile string
	// PeerServerName is the name that certificates of replicas at https have. Empty means the host of
	// each one's URL. Replicas whose URLs are addresses of pods, which no certificate can name in
	// advance, share a name.
	PeerServerName string

	// MaxStreamsPerCluster and MaxStreamsPerUser bound the requests under way.
	MaxStreamsPerCluster int
	MaxStreamsPerUser    int
	// MaxConnectionsPerCluster bounds an agent's connections.
	MaxConnectionsPerCluster int
	// MaxConnectsPerSecond bounds how many connections agents open at this replica in a second.
	MaxConnectsPerSecond int
	// StreamWindow is how much of one unread response the hub accepts at first, MaxStreamWindow how
	// much when its reader keeps up with a distant agent.
	StreamWindow    config.Bytes
	MaxStreamWindow config.Bytes
	// BufferMemory bounds the bytes that were received from all agents and not yet read. Uploads
	// over HTTP/2 may hold half as much in addition. Zero means a quarter of GOMEMLIMIT or of the
	// container's limit, whichever is less, and 512 MiB without either.
	BufferMemory config.Bytes
	// PingAfter is the silence after which the hub pings an agent, PingTimeout how long the answer
	// may take.
	PingAfter   time.Duration
	PingTimeout time.Duration
	// HeartbeatInterval is how often the hub sends something on each agent's connection,
	// HeartbeatTimeout how long the agent may take to answer.
	HeartbeatInterval time.Duration
	HeartbeatTimeout  time.Duration
	// TokenGrace is how long an agent's connection lives after its access token has expired, unless
	// the agent shows another one.
	TokenGrace time.Duration
	// AccessMaxAge is the longest life of a permission, AccessStaleAge its life while the
	// distributor does not answer.
	AccessMaxAge   time.Duration
	AccessStaleAge time.Duration
	// RecheckInterval is how often the permission of a running request is checked again.
	RecheckInterval time.Duration
	// StallTimeout is how long a caller may read nothing of an answer before its request is ended.
	StallTimeout time.Duration
	// AllowedOrigins are those whose web pages may call, such as https://ui.example.com. Empty:
	// only pages of the hub's own.
	AllowedOrigins []string

	// AllowLocalAgents lets the hub dial agents at loopback and link-local addresses: for tests and
	// development.
	AllowLocalAgents bool

	// Load bounds the load on clusters and the bytes that people move.
	Load Load

	// ClusterDomain gives each cluster a host of its own, which is one label below it (see
	// [objectname.HostLabel]). Empty means that there are paths only.
	ClusterDomain string

	// Audit sets where audit records go.
	Audit auditout.Config
	// Record selects the sessions to record.
	Record RecordConfig
}

const (
	// agentsPingAfter is the silence after which an agent sends PINGs, which cannot be set.
	agentsPingAfter = 20 * time.Second
	// moveShare is the part of the drain timeout that agents have to connect elsewhere, while
	// people are served as before.
	moveShare = 0.4
)

// These constants derive the default of [Config.BufferMemory]: a quarter of what the process may
// use. The garbage collector may need the same amount again. Histories of shared watches, audit
// records, agents' connections and running requests need the rest.
const (
	bufferMemoryDivisor  = 4
	bufferMemoryLeast    = 32 << 20
	bufferMemoryFallback = 512 << 20
	// uploadMemoryDivisor divides the bound for answers to get the bound for uploads.
	uploadMemoryDivisor = 2
)

// A replica has few peers, which are near: see ADR 0024.
const (
	peerWindow  = 1 << 20
	peerStreams = 1000
)

// Bind binds the fields and sets their defaults.
func (c *Config) Bind(s *config.Set) {
	c.Serve.Bind(s)
	c.Telemetry.Bind(s)
	limits, ages, connections := session.DefaultLimits(), policy.DefaultCacheParams(nil), reverse.DefaultSettings()
	s.Group("Tunnel")
	s.String(&c.DistributorURL, "distributor-url", "",
		"base URL of the distributor: keys of tokens, and who may reach what")
	s.String(&c.DistributorCAFile, "distributor-ca-file", "", "certificates to trust for the distributor, in PEM")
	c.Service.Bind(s)
	s.String(&c.RedisURL, "redis-url", "",
		"Redis in which all replicas share the routes to agents: redis://…, or redis+sentinel://…, redis+cluster://…; empty: this is the only replica")
	s.File("redis-url")
	s.String(&c.RedisCAFile, "redis-ca-file", "",
		"PEM certificates to trust for a Redis with TLS (rediss://…) instead of the system's")
	s.String(&c.AdvertiseURL, "tunnel-advertise-url", "",
		"where the other replicas reach --tunnel-peer-listen-addr of this one; needed with --redis-url")
	// The manifests open this port only to the tunnel's own pods.
	s.String(&c.PeerListenAddr, "tunnel-peer-listen-addr", ":8705",
		"address that other replicas pass requests to, host:port; not for people or agents")
	s.String(&c.PeerCAFile, "tunnel-peer-ca-file", "", "certificates to trust for other replicas at https, in PEM")
	s.String(&c.PeerServerName, "tunnel-peer-server-name", "",
		"name that certificates of other replicas at https have, such as tunnel.leat.svc; empty: the host of each one's URL")
	s.Int(&c.MaxStreamsPerCluster, "tunnel-max-streams-per-cluster", limits.StreamsPerCluster,
		"requests under way to one cluster; one more is answered 429")
	s.Int(&c.MaxStreamsPerUser, "tunnel-max-streams-per-user", limits.StreamsPerUser,
		"requests of one person under way; one more is answered 429")
	s.Int(&c.MaxConnectionsPerCluster, "tunnel-max-connections-per-cluster", limits.SessionsPerCluster,
		"connections of one agent; one more closes the oldest")
	// 500 a second bring back the agents of a replica that held 10,000 within half a minute.
	s.Int(&c.MaxConnectsPerSecond, "tunnel-max-connects-per-second", 500,
		"connections that agents may open at this replica in a second; others wait, or are told when to come again")
	s.Size(&c.StreamWindow, "tunnel-stream-window", config.Bytes(connections.Windows.Initial),
		"bytes of one unread response that the hub accepts at first")
	s.Size(&c.MaxStreamWindow, "tunnel-max-stream-window", config.Bytes(connections.Windows.Max),
		"bytes of one unread response that the hub accepts when its reader keeps up with a distant agent")
	s.Size(&c.BufferMemory, "tunnel-buffer-memory", 0,
		"bytes of all answers that may be unread at once; beyond it the hub ends the readers that have stood still for the longest; uploads may "+
			"hold half as much again; 0: a quarter of GOMEMLIMIT or of the container's limit, 512 MiB without either")
	s.Duration(&c.PingAfter, "tunnel-ping-after", connections.PingAfter, "silence after which an agent is pinged")
	s.Duration(&c.PingTimeout, "tunnel-ping-timeout", connections.PingTimeout,
		"how long an agent may take to answer a ping")
	// Intermediaries commonly end a silent connection after 30 s or more.
	s.Duration(&c.HeartbeatInterval, "tunnel-heartbeat-interval", 15*time.Second,
		"how often the hub sends something on each agent's connection, so that load balancers do not end it for its silence; must be less than "+
			"20s, after which agents send PINGs, which some load balancers swallow")
	// A dead agent is known within two intervals.
	s.Duration(&c.HeartbeatTimeout, "tunnel-heartbeat-timeout", 15*time.Second,
		"how long an agent may take to answer before its connection is ended")
	// As long as a token: an outage of the distributor, which issues tokens, does not show at the
	// tunnel.
	s.Duration(&c.TokenGrace, "tunnel-token-grace", time.Hour,
		"how long an agent stays connected after its access token has expired, unless it shows another one")
	s.Duration(&c.AccessMaxAge, "tunnel-access-max-age", ages.PositiveAge,
		"how long a permission counts before it is checked again")
	s.Duration(&c.AccessStaleAge, "tunnel-access-stale-age", ages.StaleAge,
		"how long a permission counts while the distributor does not answer")
	// It bounds how long a running watch outlives its permission.
	s.Duration(&c.RecheckInterval, "tunnel-recheck-interval", time.Minute,
		"how often the permission of a running request is checked again")
	// Longer than any pause of a reader that means to continue.
	s.Duration(&c.StallTimeout, "tunnel-stall-timeout", 2*time.Minute,
		"how long a person may read no byte of an answer before the request is ended")
	c.Audit.Bind(s, program)
	c.Record.Bind(s)
	s.Strings(&c.AllowedOrigins, "tunnel-allowed-origins", nil,
		"origins whose web pages may call, such as https://ui.example.com, separated by commas")
	s.Bool(&c.AllowLocalAgents, "allow-local-agents", false,
		"let the hub dial agents and identity providers at loopback and link-local addresses; for tests and development only")
	c.Load.Bind(s)
	s.String(&c.ClusterDomain, "tunnel-cluster-domain", "",
		"domain below which each cluster has a host of its own beside its path: {name}.{domain}, and {project}--{name}.{domain} outside the project default")
	s.Check(c.check)
}

// invalid returns the error for a setting with a wrong value.
func invalid(flag string, got any, want string) error {
	return fmt.Errorf("--%s: got %v, want %s", flag, got, want)
}

func (c *Config) check() error {
	if c.DistributorURL == "" {
		return config.Missing("distributor-url")
	}
	return cmp.Or(c.Service.Check(), c.checkReplicas(), c.checkNames(), c.checkAmounts(),
		c.Audit.Check(program), c.Record.check(), c.Load.check())
}

// checkNames checks the names under which the hub and its callers are known.
func (c *Config) checkNames() error {
	if c.ClusterDomain != "" && !kubeproxy.ValidName(strings.ToLower(c.ClusterDomain)) {
		return invalid("tunnel-cluster-domain", fmt.Sprintf("%q", c.ClusterDomain),
			"a domain such as clusters.example.com, without scheme, port and outer dots")
	}
	if _, err := crossorigin.New(c.AllowedOrigins); err != nil {
		return fmt.Errorf("--tunnel-allowed-origins: %w", err)
	}
	return nil
}

// checkAmounts refuses zero where it would stop the tunnel. The heartbeats must be more frequent
// than agents' PINGs: where an intermediary swallows those, agents would believe the hub gone.
func (c *Config) checkAmounts() error {
	for _, amount := range []struct {
		flag string
		text any
		zero bool
	}{
		{"drain-timeout", c.Serve.DrainTimeout, c.Serve.DrainTimeout <= 0},
		{"tunnel-max-streams-per-cluster", c.MaxStreamsPerCluster, c.MaxStreamsPerCluster <= 0},
		{"tunnel-max-streams-per-user", c.MaxStreamsPerUser, c.MaxStreamsPerUser <= 0},
		{"tunnel-max-connections-per-cluster", c.MaxConnectionsPerCluster, c.MaxConnectionsPerCluster <= 0},
		{"tunnel-max-connects-per-second", c.MaxConnectsPerSecond, c.MaxConnectsPerSecond <= 0},
		{"tunnel-stream-window", c.StreamWindow, c.StreamWindow <= 0},
		{"tunnel-max-stream-window", c.MaxStreamWindow, c.MaxStreamWindow <= 0},
		{"tunnel-ping-after", c.PingAfter, c.PingAfter <= 0},
		{"tunnel-ping-timeout", c.PingTimeout, c.PingTimeout <= 0},
		{"tunnel-heartbeat-timeout", c.HeartbeatTimeout, c.HeartbeatTimeout <= 0},
		{"tunnel-recheck-interval", c.RecheckInterval, c.RecheckInterval <= 0},
		{"tunnel-stall-timeout", c.StallTimeout, c.StallTimeout <= 0},
	} {
		if amount.zero {
			return invalid(amount.flag, amount.text, "more than 0")
		}
	}
	if c.HeartbeatInterval <= 0 || c.HeartbeatInterval >= agentsPingAfter {
		return invalid("tunnel-heartbeat-interval", c.HeartbeatInterval, fmt.Sprintf(
			"more than 0 and less than %v: agents that receive nothing for so long send PINGs, which some load balancers swallow", agentsPingAfter))
	}
	return nil
}

// checkReplicas checks the settings for several replicas.
func (c *Config) checkReplicas() error {
	switch {
	case c.RedisURL == "" && c.AdvertiseURL == "":
		return nil
	case c.RedisURL == "":
		return config.Missing("redis-url")
	case c.AdvertiseURL == "":
		return config.Missing("tunnel-advertise-url")
	}
	u, err := url.Parse(c.AdvertiseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" {
		return invalid("tunnel-advertise-url", "another URL", "http://host:port or https://host:port, without a path")
	}
	return nil
}

func (c *Config) limits() session.Limits {
	return session.Limits{
		StreamsPerCluster: c.MaxStreamsPerCluster, StreamsPerUser: c.MaxStreamsPerUser, SessionsPerCluster: c.MaxConnectionsPerCluster,
	}
}

func (c *Config) connections() h2.Settings {
	settings := reverse.DefaultSettings()
	settings.Windows.Initial = int(c.StreamWindow)
	settings.Windows.Max = max(int(c.MaxStreamWindow), int(c.StreamWindow))
	settings.PingAfter, settings.PingTimeout = c.PingAfter, c.PingTimeout
	return settings
}

func (c *Config) decisions(access policy.Access) policy.CacheParams {
	params := policy.DefaultCacheParams(access)
	params.PositiveAge, params.StaleAge = c.AccessMaxAge, c.AccessStaleAge
	return params
}

// bufferMemory returns the bound of unread bodies in bytes. root is where the process's control
// group is mounted.
func (c *Config) bufferMemory(root string) int64 {
	if c.BufferMemory > 0 {
		return int64(c.BufferMemory)
	}
	return memlimit.Share{
		Root: root, Divisor: bufferMemoryDivisor, Least: bufferMemoryLeast, Fallback: bufferMemoryFallback,
	}.Bytes()
}

// agentSilence returns how long an agent that lives is silent at most. Agents that come by calls
// have two layers of HTTP/2. The server's own sends no PING before, because an intermediary could
// swallow it.
func (c *Config) agentSilence() time.Duration { return c.HeartbeatInterval * 4 / 3 }

// moveTimeout returns how long a drain waits for agents and requests to move to other replicas.
func (c *Config) moveTimeout() time.Duration {
	if c.RedisURL == "" {
		return 0
	}
	return time.Duration(float64(c.Serve.DrainTimeout) * moveShare)
}

// sessionGrace lets upgraded connections continue for most of the drain, so that there is time to
// end them properly.
func (c *Config) sessionGrace() time.Duration {
	return (c.Serve.DrainTimeout - c.moveTimeout()) * 4 / 5
}

// peerServe returns the settings of the server for other replicas.
func (c *Config) peerServe() serve.Config {
	return serve.Config{
		ListenAddr: c.PeerListenAddr, Listener: c.PeerListener,
		TLSCertFile: c.Serve.TLSCertFile, TLSKeyFile: c.Serve.TLSKeyFile,
		DrainTimeout: c.Serve.DrainTimeout, PingAfter: c.Serve.PingAfter,
		ReceiveWindow: peerWindow, MaxStreams: peerStreams,
	}
}

// RecordConfig selects the sessions to record.
type RecordConfig struct {
	// Dir is the folder of the recordings. Empty: nothing is recorded.
	Dir string
	// Input records what people type, too.
	Input bool
	// Required refuses and ends sessions that cannot be recorded.
	Required bool
	// MaxSize bounds one recording.
	MaxSize config.Bytes
	// KeepFor is how long recordings are kept. Zero means without limit.
	KeepFor time.Duration
}

// Bind binds the fields and sets their defaults.
func (c *RecordConfig) Bind(s *config.Set) {
	s.String(&c.Dir, "tunnel-record-dir", "",
		"folder for recordings (asciicast) of exec and attach with a terminal; empty records none")
	s.Bool(&c.Input, "tunnel-record-input", false, "record what people type, too, passwords included")
	s.Bool(&c.Required, "tunnel-record-required", false, "refuse and end sessions that cannot be recorded")
	// The default holds hours of a busy terminal.
	s.Size(&c.MaxSize, "tunnel-record-max-size", 64<<20,
		"size at which a recording ends, and with it a session that must be recorded")
	s.Duration(&c.KeepFor, "tunnel-record-keep-for", 0, "how long recordings are kept; 0: without limit")
}

func (c *RecordConfig) check() error {
	if c.Dir == "" && (c.Required || c.Input || c.KeepFor != 0) {
		return invalid("tunnel-record-dir", `""`,
			"a folder, which --tunnel-record-required, --tunnel-record-input and --tunnel-record-keep-for need")
	}
	if c.MaxSize <= 0 {
		return invalid("tunnel-record-max-size", c.MaxSize, "more than 0")
	}
	return nil
}

// Values of [Load.WatchFanIn].
const (
	fanInOn  = "on"
	fanInOff = "off"
)

// Load bounds the load on clusters and the bytes that people move.
type Load struct {
	// WatchFanIn is on or off: whether viewers of one watch share one watch of the cluster.
	WatchFanIn string
	// WatchFanInMemory bounds the histories of shared watches.
	WatchFanInMemory config.Bytes
	// MaxBytesPerUser and MaxBytesPerCluster bound the bytes that may be moved within QuotaWindow.
	// Zero means that there is no bound.
	MaxBytesPerUser    config.Bytes
	MaxBytesPerCluster config.Bytes
	// QuotaWindow is how long bytes count.
	QuotaWindow time.Duration
}

// Bind binds the fields and sets their defaults.
func (l *Load) Bind(s *config.Set) {
	s.Choice(&l.WatchFanIn, "tunnel-watch-fan-in", fanInOn,
		"whether many viewers of one watch, under one identity, cost the cluster one watch", fanInOn, fanInOff)
	s.Size(&l.WatchFanInMemory, "tunnel-watch-fan-in-memory", 64<<20,
		"memory for the events of shared watches, from which late viewers are served")
	s.Size(&l.MaxBytesPerUser, "tunnel-max-bytes-per-user", 0,
		"bytes that one person may move through a replica within the quota window; then new requests are answered 429; 0: no limit")
	s.Size(&l.MaxBytesPerCluster, "tunnel-max-bytes-per-cluster", 0,
		"bytes that may be moved to and from one cluster through a replica within the quota window; 0: no limit")
	s.Duration(&l.QuotaWindow, "tunnel-quota-window", time.Hour, "how long moved bytes count")
}

func (l *Load) check() error {
	switch {
	case l.WatchFanIn != fanInOn && l.WatchFanIn != fanInOff:
		return invalid("tunnel-watch-fan-in", fmt.Sprintf("%q", l.WatchFanIn), "on or off")
	case l.WatchFanInMemory <= 0:
		return invalid("tunnel-watch-fan-in-memory", l.WatchFanInMemory, "more than 0")
	case l.QuotaWindow < time.Minute:
		return invalid("tunnel-quota-window", l.QuotaWindow, "at least 1m")
	}
	return nil
}
