// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"fmt"
	"io"
	"time"

	"github.com/leatdev/leat/internal/config"
	"github.com/leatdev/leat/internal/serve"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
	"github.com/leatdev/leat/services/tunnel/internal/reverse"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// defaultDrainTimeout is the serve package's.
const defaultDrainTimeout = 25 * time.Second

// defaultRecheckInterval bounds how long a running watch outlives its permission.
const defaultRecheckInterval = time.Minute

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
	// ServiceSecret is the secret that the hub's services share, at least 32 bytes. Required.
	ServiceSecret config.Secret

	// MaxStreamsPerCluster and MaxStreamsPerUser bound the requests under way.
	MaxStreamsPerCluster int
	MaxStreamsPerUser    int
	// MaxConnectionsPerCluster bounds an agent's connections.
	MaxConnectionsPerCluster int
	// StreamWindow is how much of one unread response the hub takes. A connection's memory is bounded by
	// MaxStreamsPerCluster times this.
	StreamWindow config.Bytes
	// PingAfter is the silence after which an agent is asked whether it lives, PingTimeout how long it may take.
	PingAfter   time.Duration
	PingTimeout time.Duration
	// AccessMaxAge is the longest life of a permission, AccessStaleAge its life while the distributor does not answer.
	AccessMaxAge   time.Duration
	AccessStaleAge time.Duration
	// RecheckInterval is how often the permission of a running request is asked for again.
	RecheckInterval time.Duration

	// AuditOutput receives the audit log, one JSON object a line. Nil means standard output. Not a flag.
	AuditOutput io.Writer
}

// Bind binds the fields.
func (c *Config) Bind(s *config.Set) {
	c.Serve.Bind(s)
	c.Telemetry.Bind(s)
	limits, ages, connections := session.DefaultLimits(), policy.DefaultCacheParams(nil), reverse.DefaultSettings()
	s.Group("Tunnel")
	s.String(&c.DistributorURL, "distributor-url", "", "base URL of the distributor: keys of tokens, and who may reach what")
	s.String(&c.DistributorCAFile, "distributor-ca-file", "", "certificates to trust for the distributor, in PEM")
	s.Secret(&c.ServiceSecret, "service-secret", "", "secret that the hub's services share, at least 32 bytes")
	s.Int(&c.MaxStreamsPerCluster, "tunnel-max-streams-per-cluster", limits.StreamsPerCluster,
		"requests under way to one cluster; one more is answered 429")
	s.Int(&c.MaxStreamsPerUser, "tunnel-max-streams-per-user", limits.StreamsPerUser,
		"requests of one person under way; one more is answered 429")
	s.Int(&c.MaxConnectionsPerCluster, "tunnel-max-connections-per-cluster", limits.SessionsPerCluster,
		"connections of one agent; one more closes the oldest")
	s.Size(&c.StreamWindow, "tunnel-stream-window", config.Bytes(connections.StreamWindow),
		"how much of one unread response the hub takes")
	s.Duration(&c.PingAfter, "tunnel-ping-after", connections.PingAfter, "silence after which an agent is pinged")
	s.Duration(&c.PingTimeout, "tunnel-ping-timeout", connections.PingTimeout, "how long an agent may take to answer a ping")
	s.Duration(&c.AccessMaxAge, "tunnel-access-max-age", ages.PositiveAge, "how long a permission counts without being asked for again")
	s.Duration(&c.AccessStaleAge, "tunnel-access-stale-age", ages.StaleAge,
		"how long a permission counts while the distributor does not answer")
	s.Duration(&c.RecheckInterval, "tunnel-recheck-interval", defaultRecheckInterval,
		"how often the permission of a running request is asked for again")
	s.Check(c.check)
}

func (c *Config) check() error {
	if c.DistributorURL == "" {
		return config.Missing("distributor-url")
	}
	if c.ServiceSecret == "" {
		return config.Missing("service-secret")
	}
	for name, value := range map[string]int64{
		"tunnel-max-streams-per-cluster":     int64(c.MaxStreamsPerCluster),
		"tunnel-max-streams-per-user":        int64(c.MaxStreamsPerUser),
		"tunnel-max-connections-per-cluster": int64(c.MaxConnectionsPerCluster),
		"tunnel-stream-window":               int64(c.StreamWindow),
		"tunnel-ping-after":                  int64(c.PingAfter),
		"tunnel-ping-timeout":                int64(c.PingTimeout),
		"tunnel-access-max-age":              int64(c.AccessMaxAge),
		"tunnel-access-stale-age":            int64(c.AccessStaleAge),
		"tunnel-recheck-interval":            int64(c.RecheckInterval),
	} {
		if value < 0 {
			return fmt.Errorf("--%s must not be negative", name)
		}
	}
	return nil
}

func (c *Config) limits() session.Limits {
	limits := session.DefaultLimits()
	limits.StreamsPerCluster = orDefault(c.MaxStreamsPerCluster, limits.StreamsPerCluster)
	limits.StreamsPerUser = orDefault(c.MaxStreamsPerUser, limits.StreamsPerUser)
	limits.SessionsPerCluster = orDefault(c.MaxConnectionsPerCluster, limits.SessionsPerCluster)
	return limits
}

// connections keeps a connection's window as large as all its streams' together.
func (c *Config) connections() reverse.Settings {
	settings := reverse.DefaultSettings()
	settings.MaxStreams = c.limits().StreamsPerCluster
	settings.StreamWindow = orDefault(int(c.StreamWindow), settings.StreamWindow)
	settings.PingAfter = orDefault(c.PingAfter, settings.PingAfter)
	settings.PingTimeout = orDefault(c.PingTimeout, settings.PingTimeout)
	return settings
}

func (c *Config) decisions(access policy.Access) policy.CacheParams {
	params := policy.DefaultCacheParams(access)
	params.PositiveAge = orDefault(c.AccessMaxAge, params.PositiveAge)
	params.StaleAge = orDefault(c.AccessStaleAge, params.StaleAge)
	return params
}

func (c *Config) drainTimeout() time.Duration {
	return orDefault(c.Serve.DrainTimeout, defaultDrainTimeout)
}

func orDefault[T int | time.Duration](value, fallback T) T {
	if value == 0 {
		return fallback
	}
	return value
}
