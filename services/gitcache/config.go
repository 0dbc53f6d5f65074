// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/gitcache/internal/cloudlogin"
	"github.com/leatdev/leat/services/gitcache/internal/hostgate"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
	"github.com/leatdev/leat/services/gitcache/internal/submodule"
)

const (
	maxFollowers = 2
	maxWebhook   = 25 * config.MiB
	// minWebhookSecret keeps the secret from being guessed from a signature, which anybody on the
	// way may see.
	minWebhookSecret = 16
)

// The back ends. They keep mirrors in the same form, so that a data folder can go from one to the
// other.
const (
	// BackendGoGit needs nothing but this program.
	BackendGoGit = "gogit"
	// BackendGit runs the git executable.
	BackendGit = "git"
)

// Config is everything that can be set. A field that is zero takes the default of its flag, except
// switches and Followers.
type Config struct {
	Serve     serve.Config
	Telemetry telemetry.Config

	// RedisURL is where leases, definitions and events are shared. Required.
	RedisURL string
	// RedisCAFile holds the PEM certificates to trust for a RedisURL with TLS. Empty: the system's.
	RedisCAFile string
	// DataDir holds mirrors, bundles and a copy of the definitions. It belongs to one replica.
	// Required.
	DataDir string
	// AdvertiseURL is where other replicas reach this one. Empty: made of the listener's address.
	AdvertiseURL string
	// PeerCAFile holds the PEM certificates to trust for other replicas at https. Empty means the
	// system's.
	PeerCAFile string
	// Service authenticates the services of the hub to one another. Its secret also seals
	// credentials. Required.
	Service rpc.ServiceConfig
	// WebhookSecret signs the webhooks of repositories without a secret of their own, or they carry
	// it; at least 16 bytes. Empty: those repositories take no webhooks.
	WebhookSecret secret.Text
	// MaxWebhook bounds the body of a webhook: at most 25 MiB. At most sixteen bodies of that
	// size are held at once.
	MaxWebhook config.Bytes

	PollInterval time.Duration // of repositories that name none
	LeaseTTL     time.Duration // how long a dead owner's repositories wait for another
	LeaseRenew   time.Duration // zero: LeaseTTL/3
	FetchTimeout time.Duration
	CloneTimeout time.Duration
	Debounce     time.Duration // between two requested fetches
	Fetches      int           // at once
	Clones       int           // at once
	Memory       config.Bytes  // of all clones and large fetches together; zero: memory.Default
	MirrorDisk   config.Bytes  // of all mirrors; zero: only the disk bounds them
	Readers      int           // of mirrors, at once
	Builds       int           // of bundles, at once
	Rebalance    time.Duration // between checks of who should own what
	// Followers is how many replicas keep a copy of each mirror besides its owner, 0 to 2. Zero:
	// none.
	Followers int

	// Backend keeps the mirrors: BackendGoGit or BackendGit. Empty: BackendGoGit.
	Backend string

	HostSessions int // conversations with one upstream host at once
	HostRequests int // to one upstream host per second
	HostBurst    int // requests to one upstream host after a rest
	// CredentialsFile holds credentials by URL prefix, for repositories that have none. Empty:
	// there is none.
	CredentialsFile string
	// Identity is the pod's identity at a cloud, for credentials that are workload identities.
	Identity cloudlogin.Config
	// AllowLocalUpstreams allows URLs that no administrator wrote to lead to this machine and its
	// link.
	AllowLocalUpstreams bool
	// RefusePrivateUpstreams rejects such URLs if they lead to private networks.
	RefusePrivateUpstreams bool
	// AllowNetworks are networks, such as 10.20.0.0/16, to which such URLs may lead, and the URLs of
	// repositories by people who may not create repositories of the hub.
	AllowNetworks []string
	// SubmoduleCredentials are URL prefixes below which submodules get the credential of the
	// repository that they belong to.
	SubmoduleCredentials []string

	BundleCache    config.Bytes
	MaxBundleBytes config.Bytes // of a bundle, unpacked
	MaxBundleFiles int
	MaxFileBytes   config.Bytes
	// Heartbeat is the longest silence of a stream of events; 20 s. Not a flag.
	Heartbeat time.Duration
}

// Bind binds the fields to flags and environment variables.
func (c *Config) Bind(s *config.Set) {
	c.Serve.Bind(s)
	c.Telemetry.Bind(s)
	c.bind(s)
	s.Check(c.check)
}

// bind binds gitcache's own fields. Each default is here alone, except the ones that a package has
// for its own settings.
func (c *Config) bind(s *config.Set) {
	times, hosts, limits := mirroring.DefaultSettings(), hostgate.DefaultConfig(), bundle.DefaultLimits()
	s.Group("Shared")
	s.String(&c.RedisURL, "redis-url", "", "Redis that all replicas share: redis://…, or redis+sentinel://…, redis+cluster://… (required)")
	s.File("redis-url")
	s.String(&c.RedisCAFile, "redis-ca-file", "", "PEM certificates to trust for a Redis with TLS (rediss://…) instead of the system's")
	c.Service.Bind(s)
	s.Group("Git cache")
	s.String(&c.DataDir, "gitcache-data-dir", "", "folder for mirrors and bundles, of this replica alone (required)")
	s.String(&c.AdvertiseURL, "gitcache-advertise-url", "", "URL under which other replicas reach this one; empty: from the listener")
	s.String(&c.PeerCAFile, "gitcache-peer-ca-file", "", "certificates to trust for other replicas at https, in PEM")
	s.Duration(&c.PollInterval, "gitcache-poll-interval", times.PollInterval, "mean time between polls of a repository that names none")
	s.Duration(&c.LeaseTTL, "gitcache-lease-ttl", times.LeaseTTL, "how long the repositories of a dead replica wait for another one")
	s.Duration(&c.LeaseRenew, "gitcache-lease-renew", 0, "time between renewals of a lease; 0: a third of the lease's life")
	s.Duration(&c.Rebalance, "gitcache-rebalance", times.Rebalance, "mean time between looks for repositories that another replica should own")
	s.Int(&c.Followers, "gitcache-followers", 1, "replicas that keep a copy of each mirror besides its owner, 0 to 2")
	s.Secret(&c.WebhookSecret, "gitcache-webhook-secret", "", "secret of the webhooks of repositories that have none of their own; empty: those take no webhooks")
	s.Size(&c.MaxWebhook, "gitcache-max-webhook", 512*config.KiB, "largest body of a webhook, at most 25 MiB; a push that needs more is found by the next poll")
	s.Duration(&c.FetchTimeout, "gitcache-fetch-timeout", times.FetchTimeout, "longest fetch into an existing mirror")
	s.Duration(&c.CloneTimeout, "gitcache-clone-timeout", times.CloneTimeout, "longest first fetch")
	s.Duration(&c.Debounce, "gitcache-debounce", times.Debounce, "least time between two requested fetches of a repository; requests in between share the second")
	s.Int(&c.Fetches, "gitcache-fetches", times.Fetches, "fetches at once")
	s.Int(&c.Clones, "gitcache-clones", times.Clones, "first fetches at once; how many of them are indexed at once is a matter of memory")
	s.Size(&c.Memory, "gitcache-memory", 0, "memory for indexing what was fetched, all repositories together; 0: half of GOMEMLIMIT or of the container's limit, 1 GiB without either")
	s.Size(&c.MirrorDisk, "gitcache-mirror-disk", 0, "disk for mirrors; 0: no bound but the disk's own")
	s.Int(&c.Readers, "gitcache-readers", 8, "mirrors open for reading at once; each takes about 16 MiB")
	s.Int(&c.Builds, "gitcache-builds", 2, "bundles built at once")
	s.String(&c.Backend, "gitcache-backend", BackendGoGit, "what stores and reads mirrors: gogit, which is built in, or git, the executable in PATH")
	s.Int(&c.HostSessions, "gitcache-host-sessions", hosts.Sessions, "conversations with one upstream host at once")
	s.Int(&c.HostRequests, "gitcache-host-requests", hosts.Requests, "requests to one upstream host per second")
	s.Int(&c.HostBurst, "gitcache-host-burst", hosts.Burst, "requests to one upstream host that may come at once after a rest")
	s.String(&c.CredentialsFile, "gitcache-credentials-file", "", "YAML or JSON file with credentials, and mirrors of registries, by URL prefix; read again when it changes")
	s.Bool(&c.AllowLocalUpstreams, "gitcache-allow-local-upstreams", false,
		"let URLs of submodules, redirects and LFS servers lead to loopback and link-local addresses; for tests and development only")
	s.Bool(&c.RefusePrivateUpstreams, "gitcache-refuse-private-upstreams", false,
		"keep URLs of submodules, redirects and LFS servers from leading to private networks")
	s.Strings(&c.AllowNetworks, "gitcache-allow-networks", nil,
		"networks, such as 10.20.0.0/16, to which these URLs may lead, and repositories of people who may not create repositories of the hub; empty: only to public addresses")
	s.Strings(&c.SubmoduleCredentials, "gitcache-submodule-credentials", nil,
		"URL prefixes below which submodules get the credential of their repository at the same host; empty: only in its own folder")
	s.Size(&c.BundleCache, "gitcache-bundle-cache", 10*config.GiB, "disk for bundles")
	s.Size(&c.MaxBundleBytes, "gitcache-max-bundle", config.Bytes(limits.Bytes), "largest bundle, unpacked")
	s.Int(&c.MaxBundleFiles, "gitcache-max-files", limits.Files, "most files of a bundle")
	s.Size(&c.MaxFileBytes, "gitcache-max-file", config.Bytes(limits.FileBytes), "largest file of a bundle")
	s.Group("Workload identity")
	c.Identity.Bind(s)
}

// completed returns a Config whose zero fields have the defaults of their flags. No followers is a
// choice.
func (c Config) completed() Config {
	followers := c.Followers
	config.Complete(c.bind)
	c.Followers = followers
	return c
}

func (c *Config) check() error {
	var errs []error
	if c.RedisURL == "" {
		errs = append(errs, config.Missing("redis-url"))
	}
	if c.DataDir == "" {
		errs = append(errs, config.Missing("gitcache-data-dir"))
	}
	errs = append(errs, c.Service.Check(), c.Identity.Check())
	refuse := func(isWrong bool, format string, args ...any) {
		if isWrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	secret := len(c.WebhookSecret.Reveal())
	refuse(secret != 0 && secret < minWebhookSecret, "--gitcache-webhook-secret: got %d bytes, want at least %d", secret, minWebhookSecret)
	refuse(c.MaxWebhook > maxWebhook, "--gitcache-max-webhook: got %s, want at most %s", c.MaxWebhook, maxWebhook)
	refuse(c.LeaseRenew > 0 && c.LeaseTTL > 0 && c.LeaseRenew > c.LeaseTTL/2,
		"--gitcache-lease-renew: got %s, want at most half of --gitcache-lease-ttl, which is %s", c.LeaseRenew, c.LeaseTTL)
	refuse(c.Followers < 0 || c.Followers > maxFollowers, "--gitcache-followers: got %d, want 0 to %d", c.Followers, maxFollowers)
	refuse(c.Backend != "" && c.Backend != BackendGoGit && c.Backend != BackendGit,
		"--gitcache-backend: got %q, want %s or %s", c.Backend, BackendGoGit, BackendGit)
	_, err := c.submodulePrefixes()
	_, err2 := c.upstreamGuard()
	return errors.Join(append(errs, err, err2)...)
}

// upstreamGuard returns the guard of addresses that no administrator wrote.
func (c *Config) upstreamGuard() (dialguard.Guard, error) {
	guard := dialguard.Guard{AllowLocal: c.AllowLocalUpstreams, RefusePrivate: c.RefusePrivateUpstreams}
	for _, text := range c.AllowNetworks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return guard, fmt.Errorf("--gitcache-allow-networks: got %q, want a network such as 10.20.0.0/16 or fd12:3456::/32", text)
		}
		guard.Allowed = append(guard.Allowed, network.Masked())
	}
	return guard, nil
}

func (c *Config) submodulePrefixes() ([]submodule.Prefix, error) {
	prefixes := make([]submodule.Prefix, 0, len(c.SubmoduleCredentials))
	for _, text := range c.SubmoduleCredentials {
		p, err := submodule.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--gitcache-submodule-credentials: got %q: %w", text, err)
		}
		prefixes = append(prefixes, p)
	}
	return prefixes, nil
}

func (c *Config) settings() mirroring.Settings {
	return mirroring.Settings{
		PollInterval: c.PollInterval, LeaseTTL: c.LeaseTTL, LeaseRenew: c.LeaseRenew, FetchTimeout: c.FetchTimeout,
		CloneTimeout: c.CloneTimeout, Debounce: c.Debounce, Fetches: c.Fetches, Clones: c.Clones,
		Rebalance: c.Rebalance, Followers: c.Followers,
	}
}

func (c *Config) limits() bundle.Limits {
	return bundle.Limits{Bytes: int64(c.MaxBundleBytes), Files: c.MaxBundleFiles, FileBytes: int64(c.MaxFileBytes)}
}

// advertise returns the URL under which other replicas reach the listener.
func (c *Config) advertise(l net.Listener) (string, error) {
	if c.AdvertiseURL != "" {
		return c.AdvertiseURL, nil
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "", fmt.Errorf("derive advertised url: %w", err)
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("derive advertised url: %w", err)
		}
	}
	scheme := "http"
	if c.Serve.TLSCertFile != "" {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}
