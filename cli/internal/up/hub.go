// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/up/demo"
	"github.com/leatdev/leat/cli/internal/up/localgit"
	"github.com/leatdev/leat/cli/internal/up/localredis"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/config"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpc"
	"github.com/leatdev/leat/internal/serve"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/distributor"
	"github.com/leatdev/leat/services/gitcache"
	"github.com/leatdev/leat/services/tunnel"
)

const (
	// startTimeout bounds how long a service may take until it is ready.
	startTimeout = time.Minute
	// drainTimeout is short, because a user waits after Ctrl-C.
	drainTimeout = 5 * time.Second
	// refreshTimeout bounds how long a push waits until the hub has been notified of it.
	refreshTimeout = 3 * time.Second
	// soloLease is how long gitcache's leases last. There are no other replicas that need time.
	soloLease = 2 * time.Second
)

// startHub starts the parts of a hub, in the order of their dependencies.
func (u *up) startHub(ctx context.Context) error {
	redis, err := localredis.Start()
	if err != nil {
		return err
	}
	u.group.Go(ctx, "redis", "", redis.Run)
	if err := u.startGit(ctx); err != nil {
		return err
	}
	for _, start := range []func(context.Context, string) error{u.startGitcache, u.startDistributor, u.startTunnel} {
		if err := start(ctx, redis.URL()); err != nil {
			return err
		}
	}
	u.tell("hub", "ready at "+u.hubURL())
	return nil
}

func (u *up) hubURL() string      { return urlOf("http", u.ports.distributor) }
func (u *up) tunnelURL() string   { return urlOf("https", u.ports.tunnel) }
func (u *up) gitcacheURL() string { return urlOf("http", u.ports.gitcache) }

// repositoryURL returns the URL that the hub mirrors.
func (u *up) repositoryURL() string {
	if u.Options.RepoURL != "" {
		return u.Options.RepoURL
	}
	return urlOf("http", u.ports.git) + "/" + demoName + ".git"
}

// startGit serves the demo repository, unless the user has named one.
func (u *up) startGit(ctx context.Context) error {
	if u.Options.RepoURL != "" {
		return u.ports.git.Close()
	}
	log, err := u.openLog("git")
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(log, nil))
	onPush, err := u.refresher(logger)
	if err != nil {
		return err
	}
	server, err := localgit.New(localgit.Params{Dir: u.dir.Path("git"), OnPush: onPush, Logger: logger})
	if errors.Is(err, localgit.ErrNoGit) {
		return failure.New("git is not installed, and the demo needs it", "Install git, or deliver your own repository: --repo URL.")
	}
	if err != nil {
		return err
	}
	content, err := demo.Files()
	if err != nil {
		return fmt.Errorf("read demo: %w", err)
	}
	if err := server.Ensure(ctx, demoName, content); err != nil {
		return err
	}
	u.group.Go(ctx, "demo repository", u.dir.Log("git"), func(ctx context.Context) error {
		return serve.Run(ctx, serve.Params{
			Config: serve.Config{Listener: u.ports.git, DrainTimeout: drainTimeout}, Public: server, Logger: logger,
		})
	})
	u.tell("repository", "serving "+u.repositoryURL())
	return nil
}

// refresher returns a function that notifies the git cache of a push, so that it fetches at once.
func (u *up) refresher(logger *slog.Logger) (func(context.Context, string), error) {
	key, err := identity.NewServiceKey([]byte(u.dir.ServiceSecret(identity.ServiceDistributor)), identity.ServiceDistributor)
	if err != nil {
		return nil, err
	}
	base, err := rpc.NewClient(rpc.ClientParams{
		BaseURL: u.gitcacheURL(), Tokens: key.For(identity.ServiceGitCache), Telemetry: telemetry.Noop(),
	})
	if err != nil {
		return nil, err
	}
	git := gitcachev1connect.NewGitCacheServiceClient(base.HTTP, base.BaseURL, base.Options...)
	return func(ctx context.Context, name string) {
		ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
		defer cancel()
		if _, err := git.RefreshRepository(ctx, &gitcachev1.RefreshRepositoryRequest{Name: name}); err != nil {
			logger.WarnContext(ctx, "push not announced, the next poll finds it", slog.String("repository", name), slog.Any("error", err))
		}
	}, nil
}

func (u *up) startGitcache(ctx context.Context, redisURL string) error {
	var cfg gitcache.Config
	err := u.configureHub("gitcache", &cfg, map[string]string{
		"LEAT_REDIS_URL":              redisURL,
		"LEAT_GITCACHE_DATA_DIR":      u.dir.Path("gitcache"),
		"LEAT_GITCACHE_ADVERTISE_URL": u.gitcacheURL(),
		// The embedded Redis begins empty, and grants a lease only after an earlier holder would
		// have lost it. There is no such holder here, so a short lease makes the first fetch after
		// a restart come soon.
		"LEAT_GITCACHE_LEASE_TTL": soloLease.String(),
		"LEAT_GITCACHE_FOLLOWERS": "0",
	})
	if err != nil {
		return err
	}
	return u.startService(ctx, "gitcache", u.ports.gitcache, &cfg.Serve, &cfg.Telemetry,
		func(ctx context.Context) error { return gitcache.Run(ctx, cfg) })
}

func (u *up) startDistributor(ctx context.Context, _ string) error {
	var cfg distributor.Config
	err := u.configureHub("distributor", &cfg, map[string]string{
		"LEAT_DISTRIBUTOR_DATABASE_URL": "sqlite://" + u.dir.Path("catalog.db"),
		"LEAT_DISTRIBUTOR_DATA_DIR":     u.dir.Path("distributor"),
		"LEAT_DISTRIBUTOR_ADMIN_TOKEN":  u.dir.AdminToken,
		"LEAT_TUNNEL_URL":               u.tunnelURL(),
		"LEAT_GITCACHE_URL":             u.gitcacheURL(),
		// Receivers of notifications, back ends and identity providers that are tried run on this machine.
		"LEAT_ALLOW_LOCAL_AGENTS": "true",
	})
	if err != nil {
		return err
	}
	if cfg.Audit.Writer, err = u.openLog("changes"); err != nil {
		return err
	}
	return u.startService(ctx, "distributor", u.ports.distributor, &cfg.Serve, &cfg.Telemetry,
		func(ctx context.Context) error { return distributor.Run(ctx, cfg) })
}

func (u *up) startTunnel(ctx context.Context, redisURL string) error {
	peers, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for other replicas of the tunnel: %w", err)
	}
	cfg := tunnel.Config{PeerListener: peers}
	err = u.configureHub("tunnel", &cfg, map[string]string{
		"LEAT_DISTRIBUTOR_URL":      u.hubURL(),
		"LEAT_REDIS_URL":            redisURL,
		"LEAT_TUNNEL_ADVERTISE_URL": urlOf("https", peers),
		"LEAT_TUNNEL_PEER_CA_FILE":  u.certs.CA,
		"LEAT_TLS_CERT_FILE":        u.certs.Cert,
		"LEAT_TLS_KEY_FILE":         u.certs.Key,
	})
	if err != nil {
		return err
	}
	if cfg.Audit.Writer, err = u.openLog("audit"); err != nil {
		return err
	}
	return u.startService(ctx, "tunnel", u.ports.tunnel, &cfg.Serve, &cfg.Telemetry,
		func(ctx context.Context) error { return tunnel.Run(ctx, cfg) })
}

// configureHub is [up.configure] for a service of the hub, which must prove its identity to the
// others.
func (u *up) configureHub(service string, cfg interface{ Bind(*config.Set) }, env map[string]string) error {
	keys, err := u.dir.ServiceKeys()
	if err != nil {
		return err
	}
	env["LEAT_SERVICE_SECRET"], env["LEAT_SERVICE_KEYS"] = u.dir.ServiceSecret(service), strings.Join(keys, ",")
	return u.configure(service, cfg, env)
}

// configure fills a service's config as its own process would: from its environment, which is env
// and the standard OTEL_ variables of this process. A name in env that the service does not read is
// a bug in this package.
func (u *up) configure(service string, cfg interface{ Bind(*config.Set) }, env map[string]string) error {
	env["LEAT_LOG_FORMAT"] = "text"
	env["LEAT_DRAIN_TIMEOUT"] = drainTimeout.String()
	unused := maps.Clone(env)
	set := config.New(service, func(name string) (string, bool) {
		if strings.HasPrefix(name, "OTEL_") {
			return u.LookupEnv(name)
		}
		delete(unused, name)
		value, ok := env[name]
		return value, ok
	})
	cfg.Bind(set)
	if err := set.Parse(nil); err != nil {
		return fmt.Errorf("configure %s: %w", service, err)
	}
	if len(unused) > 0 {
		return fmt.Errorf("configure %s: it has no setting %s", service, strings.Join(slices.Sorted(maps.Keys(unused)), ", "))
	}
	return nil
}

// startService runs a service on its port and waits until it is ready.
func (u *up) startService(ctx context.Context, name string, port net.Listener, serving *serve.Config, told *telemetry.Config, run func(context.Context) error) (err error) {
	serving.Listener = port
	if told.LogOutput, err = u.openLog(name); err != nil {
		return err
	}
	serving.InternalListener, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for probes of %s: %w", name, err)
	}
	u.group.Go(ctx, name, u.dir.Log(name), run)
	return u.waitReady(ctx, name, urlOf("http", serving.InternalListener))
}

// waitReady polls a service until it reports that it is ready.
func (u *up) waitReady(ctx context.Context, name, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	httpClient, err := u.httpClient()
	if err != nil {
		return err
	}
	defer httpClient.CloseIdleConnections()
	if last := poll(ctx, 50*time.Millisecond, func() error { return ready(ctx, httpClient, url) }); last != nil {
		return failure.New(fmt.Sprintf("%s did not become ready: %v", name, last), "Its log is "+u.dir.Log(name)+".")
	}
	return nil
}

// poll calls try at an interval until it returns nil or ctx is done, and returns its last error.
func poll(ctx context.Context, interval time.Duration, try func() error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		last := try()
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return last
		case <-ticker.C:
		}
	}
}

func (u *up) httpClient() (*http.Client, error) {
	authority, err := os.ReadFile(u.certs.CA)
	if err != nil {
		return nil, fmt.Errorf("read authority: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
	}, nil
}

func ready(ctx context.Context, c *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	return fmt.Errorf("%s: %s", response.Status, strings.Join(strings.Fields(string(text)), " "))
}

func host(listen string) string {
	name, _, _ := net.SplitHostPort(listen) // already validated
	return name
}
