// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/auditout"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/crossorigin"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/access/loginpages"
	"github.com/leatdev/leat/services/distributor/internal/api/people"
	"github.com/leatdev/leat/services/distributor/internal/ui"
)

const (
	program = "distributor"
	// scope names what measures and traces.
	scope = "github.com/leatdev/leat/services/distributor"
)

// minAdminToken is the shortest admin token, prefix included, in bytes: what 16 random bytes are in
// hexadecimal digits, or more.
const minAdminToken = 32

// minAuditRetention is the shortest time for which records of changes are kept.
const minAuditRetention = 24 * time.Hour

// Config is everything that can be set. A number or time of the distributor's own that is zero
// takes the default that Bind gives its flag.
type Config struct {
	Serve     serve.Config
	Telemetry telemetry.Config
	// DatabaseURL is sqlite:///path/to/file.db or postgres://…; empty: the file leat.db in DataDir.
	DatabaseURL string
	// DataDir holds the bundle cache. Required; it belongs to one replica.
	DataDir string
	// GitCacheURL is the base URL of gitcache. Required.
	GitCacheURL string
	// GitCache is what else there is to know of gitcache.
	GitCache GitCacheConfig
	// Service authenticates the services of the hub to one another. Its secret is also the root of
	// the keys that seal stored data, unless Keys names another. Required.
	Service rpc.ServiceConfig
	// Keys sets how the keys that seal and sign are kept and replaced.
	Keys KeyConfig
	// Audit sets where the records of changes go, and for how long.
	Audit AuditConfig
	// AdminToken lets the user "admin" in. It begins with "leat_". Empty: the tokens in the database
	// stay valid, and none is added.
	AdminToken secret.Text
	// Addresses are what agents and people are told.
	Addresses
	// AllowLocalAgents lets agents, identity providers and sinks of notifiers be dialled at loopback and link-local
	// addresses: for tests and development.
	AllowLocalAgents bool
	// RefusePrivateSinks keeps notifiers from sending to private networks.
	RefusePrivateSinks bool
	// AgentSettingsFile is a YAML file with the settings of the agents of all clusters, like
	// spec.agent of a Cluster document. It is read at the start. Empty: they have only their cluster's
	// settings.
	AgentSettingsFile string
	// AllowedOrigins are those whose web pages may call, such as https://ui.example.com. None: only
	// pages of the hub's own.
	AllowedOrigins []string
	// BundleCache bounds the bundles that are kept in DataDir.
	BundleCache config.Bytes
	// AgentRate is how many agents may open a stream of their plan in a second, how many may obtain
	// a token, and how many may enrol; others are told when to come again.
	AgentRate int
	// Backends lists the parts of this machine that configuration back ends may use.
	Backends BackendConfig
	// Intervals are how often the distributor and its agents poll.
	Intervals Intervals
}

// Addresses are addresses of the hub for those outside.
type Addresses struct {
	// TunnelURL is the public base URL of the tunnel, for agents and people. Empty: the hub has none.
	TunnelURL string
	// PublicURL is the base URL at which people's browsers reach this service, such as
	// https://leat.example.com. Empty: sign-in by an identity provider is off.
	PublicURL string
	// TraceURL is where people look at a trace, with people.TracePlace in place of its ID. Empty: they are told the ID alone.
	TraceURL string
}

// GitCacheConfig is how gitcache proves itself, and where others than this hub reach it.
type GitCacheConfig struct {
	// CAFile holds the PEM certificates to trust for gitcache at https. Empty means the system's.
	CAFile string
	// WebhookURL is the public address below which webhooks reach gitcache, which people are told. Empty: /webhooks
	// below the distributor's PublicURL.
	WebhookURL string
}

// Intervals are times between two polls, each spread by a quarter, and how long an answer waits.
type Intervals struct {
	// PlanPoll is how often agents that hold no stream ask for their plan.
	PlanPoll time.Duration
	// CatalogPoll is how often changes made by other replicas are looked for.
	CatalogPoll time.Duration
	// Resync is how often every source is resolved again, in case an event was missed.
	Resync time.Duration
	// Reconcile is how often gitcache's repository definitions are compared with the catalog.
	Reconcile time.Duration
	// RolloutWait bounds how long the answer to an edit waits for the rollout that brings it. Zero means 3 s. It has no
	// flag: it is for tests on busy machines.
	RolloutWait time.Duration
}

// Bind binds the fields.
func (c *Config) Bind(s *config.Set) {
	c.Serve.Bind(s)
	c.Telemetry.Bind(s)
	c.bind(s)
	s.Check(c.check)
}

// bind binds the distributor's own fields.
func (c *Config) bind(s *config.Set) {
	s.Group("Shared")
	c.Service.Bind(s)
	s.String(&c.GitCacheURL, "gitcache-url", "", "base URL of gitcache, such as https://gitcache:8701 (required)")
	s.String(&c.GitCache.CAFile, "gitcache-ca-file", "", "certificates to trust for gitcache at https, in PEM")
	s.String(&c.GitCache.WebhookURL, "webhook-url", "", "public address below which webhooks of Git hosts reach gitcache, for people to enter there; empty: /webhooks of the distributor's public URL")
	s.String(&c.TunnelURL, "tunnel-url", "", "public base URL of the tunnel, for agents and people; empty: there is none")
	s.Bool(&c.AllowLocalAgents, "allow-local-agents", false, "let the hub dial agents, identity providers and sinks of notifiers at loopback and link-local addresses; for tests and development only")
	s.Group("Distributor")
	s.String(&c.DatabaseURL, "distributor-database-url", "", "where the catalog is: sqlite:///path/to/file.db or postgres://user@host/name; empty means leat.db in the data folder")
	s.File("distributor-database-url")
	s.String(&c.DataDir, "distributor-data-dir", "", "folder of the bundle cache, of this replica alone (required)")
	s.String(&c.PublicURL, "distributor-public-url", "", "https:// base URL at which people's browsers reach the distributor; empty: nobody signs in by an identity provider")
	c.Keys.bind(s)
	s.Secret(&c.AdminToken, "distributor-admin-token", "", "API token of the user admin; begins with leat_")
	s.String(&c.TraceURL, "distributor-trace-url", "", "where people look at a trace, such as https://jaeger.example.com/trace/"+people.TracePlace+"; empty: leat trace and the web UI tell only its ID")
	s.String(&c.AgentSettingsFile, "distributor-agent-settings-file", "", "YAML file with what the agents of all clusters are told, in the form of spec.agent of a Cluster; a cluster's own settings come before it; read at the start")
	s.Bool(&c.RefusePrivateSinks, "distributor-refuse-private-sinks", false, "refuse notifiers whose sink is in a private network, such as 10.0.0.0/8")
	s.Strings(&c.AllowedOrigins, "distributor-allowed-origins", nil, "origins whose web pages may call, such as https://ui.example.com, separated by commas")
	s.Size(&c.BundleCache, "distributor-bundle-cache", 10*config.GiB, "bound of the bundle cache on disk")
	s.Int(&c.AgentRate, "distributor-agent-rate", 1000, "how many agents may open the stream of their plan at a replica in a second, and obtain a token, and enrol; five times as many at once after a quiet time")
	s.Duration(&c.Intervals.PlanPoll, "distributor-plan-poll-interval", 2*time.Minute, "how often agents without a stream ask for their plan, give or take a quarter")
	s.Duration(&c.Intervals.CatalogPoll, "distributor-catalog-poll-interval", time.Second, "how often changes made by other replicas are looked for, give or take a quarter")
	s.Duration(&c.Intervals.Resync, "distributor-resync-interval", 10*time.Minute, "how often every source is resolved again in case an event was missed, give or take a quarter")
	s.Duration(&c.Intervals.Reconcile, "distributor-reconcile-interval", time.Minute, "how often repository definitions in gitcache are compared with the catalog, give or take a quarter")
	c.Backends.bind(s)
	c.Audit.bind(s)
}

// AuditConfig sets where the records of changes go beside the database, and how long that keeps
// them.
type AuditConfig struct {
	auditout.Config
	// Retention is how long the database keeps records.
	Retention time.Duration
}

func (c *AuditConfig) bind(s *config.Set) {
	c.Bind(s, program)
	s.Duration(&c.Retention, "distributor-audit-retention", 400*24*time.Hour, "how long the database keeps the records of changes, which leat audit shows; at least 24h")
}

func (c *AuditConfig) check() error {
	if c.Retention < minAuditRetention {
		return errors.Join(c.Check(program), fmt.Errorf("--distributor-audit-retention: got %v, want %v or more", c.Retention, minAuditRetention))
	}
	return c.Check(program)
}

func (c *Config) check() error {
	var errs []error
	if c.DataDir == "" {
		errs = append(errs, config.Missing("distributor-data-dir"))
	}
	if c.GitCacheURL == "" {
		errs = append(errs, config.Missing("gitcache-url"))
	}
	if _, _, err := c.Service.Open(program); err != nil {
		errs = append(errs, err)
	}
	if token := c.AdminToken.Reveal(); token != "" && (len(token) < minAdminToken || !strings.HasPrefix(token, admission.APITokenPrefix)) {
		errs = append(errs, fmt.Errorf("--distributor-admin-token: got %d bytes, want at least %d that begin with %s, such as: echo leat_$(openssl rand -hex 32)",
			len(token), minAdminToken, admission.APITokenPrefix))
	}
	if err := c.Keys.check(&c.Service); err != nil {
		errs = append(errs, err)
	}
	if _, err := crossorigin.New(c.AllowedOrigins); err != nil {
		errs = append(errs, fmt.Errorf("--distributor-allowed-origins: %w", err))
	}
	if err := checkPublicURL(c.PublicURL); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, checkWebhookURL(c.GitCache.WebhookURL), checkTraceURL(c.TraceURL), c.Backends.check(), c.Audit.check())
	if c.AgentRate < 0 {
		errs = append(errs, fmt.Errorf("--distributor-agent-rate: got %d, want 0 or more", c.AgentRate))
	}
	return errors.Join(errs...)
}

// checkTraceURL refuses what no browser should open, and what names no trace.
func checkTraceURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(strings.ReplaceAll(text, people.TracePlace, "0"))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || !strings.Contains(text, people.TracePlace) {
		return fmt.Errorf("--distributor-trace-url: got %q, want https://HOST with %s, such as https://jaeger.example.com/trace/%[2]s", text, people.TracePlace)
	}
	return nil
}

// checkPublicURL refuses what browsers would not keep a session for: they keep it for https, and on
// this machine.
func checkPublicURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" ||
		u.Scheme != "https" && (u.Scheme != "http" || !crossorigin.IsOwnMachine(u.Hostname())) {
		return fmt.Errorf("--distributor-public-url: got %q, want https://HOST without a path", text)
	}
	return nil
}

// checkWebhookURL refuses what is not an address that people can enter at a Git host.
func checkWebhookURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return fmt.Errorf("--webhook-url: got %q, want https://HOST/PATH", text)
	}
	return nil
}

// databaseURL returns the database: the given one, or the file in the data folder.
func (c *Config) databaseURL() string {
	return cmp.Or(c.DatabaseURL, "sqlite:"+filepath.ToSlash(filepath.Join(c.DataDir, "leat.db")))
}

// publicURL returns the base URL of this service for browsers, without a slash at its end.
func (c *Config) publicURL() string { return strings.TrimRight(c.PublicURL, "/") }

// uiURL returns where the web UI is, as far as the hub knows its own address.
func (c *Config) uiURL() string { return c.publicURL() + ui.Path }

// webhookURL returns the address below which webhooks reach gitcache; empty: it is not known.
func (c *Config) webhookURL() string {
	if c.GitCache.WebhookURL != "" || c.PublicURL == "" {
		return strings.TrimRight(c.GitCache.WebhookURL, "/")
	}
	return c.publicURL() + "/webhooks"
}

// redirectURI returns what identity providers send people back to; empty without a public URL.
func (c *Config) redirectURI() string {
	if c.PublicURL == "" {
		return ""
	}
	return c.publicURL() + loginpages.CallbackPath
}
