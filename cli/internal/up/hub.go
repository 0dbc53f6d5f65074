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
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/localtls"
	"github.com/leatdev/leat/cli/internal/up/demo"
	"github.com/leatdev/leat/cli/internal/up/localgit"
	"github.com/leatdev/leat/cli/internal/up/localredis"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/crossorigin"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/distributor"
	"github.com/leatdev/leat/services/gitcache"
	"github.com/leatdev/leat/services/tunnel"
)

const (
	// startTimeout bounds how long a service may take until it is ready.
	startTimeout = time.Minute
	// refreshTimeout bounds how long a push waits until the hub has been notified of it.
	refreshTimeout = 3 * time.Second
	// browserName is the hub's name in browsers, which resolve it without DNS.
	browserName = "leat.localhost"
	// soloLease is how long gitcache's leases last. There are no other replicas that need time.
	soloLease = 2 * time.Second
	// loopback is where the front calls from: it names its callers in X-Forwarded-For.
	loopback = "127.0.0.0/8"
)

// hub is the hub of this run, whose services listen on the ports.
type hub struct {
	*base

	ports *listeners
	certs localtls.Files
}

// openHub opens the ports and makes certificates.
func openHub(ctx context.Context, b *base) (*hub, error) {
	ports, err := listen(ctx, b.Options.Listen)
	if err != nil {
		return nil, err
	}
	b.opened = append(b.opened, ports)
	certs, err := localtls.Ensure(b.dir.Path(), host(b.Options.Listen))
	return &hub{base: b, ports: ports, certs: certs}, err
}

// start starts the services, in the order of their dependencies.
func (h *hub) start(ctx context.Context) error {
	redis, err := localredis.Start()
	if err != nil {
		return err
	}
	h.group.Go(ctx, "redis", "", redis.Run)
	if err := h.startGit(ctx); err != nil {
		return err
	}
	for _, start := range []func(context.Context, string) error{h.startGitcache, h.startDistributor, h.startTunnel} {
		if err := start(ctx, redis.URL()); err != nil {
			return err
		}
	}
	if err := h.startFront(ctx); err != nil {
		return err
	}
	h.tell("hub", "ready at "+h.url())
	return nil
}

// url returns the URL of the front.
func (h *hub) url() string { return urlOf("http", h.ports.front) }

// publicURL returns the URL of the front for browsers, or "" if they would keep no session there:
// without TLS they do for this machine alone. The name is one of this machine's to every browser,
// and keeps cookies from other servers that listen on it.
func (h *hub) publicURL() string {
	u, err := url.Parse(h.url())
	if err != nil || !crossorigin.IsOwnMachine(u.Hostname()) {
		return ""
	}
	return "http://" + net.JoinHostPort(browserName, u.Port())
}

func (h *hub) distributorURL() string { return urlOf("http", h.ports.distributor) }

func (h *hub) tunnelURL() string { return urlOf("https", h.ports.tunnel) }

func (h *hub) gitcacheURL() string { return urlOf("http", h.ports.gitcache) }

// repositoryURL returns the URL that the hub mirrors.
func (h *hub) repositoryURL() string {
	if h.Options.RepoURL != "" {
		return h.Options.RepoURL
	}
	return urlOf("http", h.ports.git) + "/" + demoName + ".git"
}

// startGit serves the demo repository, unless the user has named one.
func (h *hub) startGit(ctx context.Context) error {
	if h.Options.RepoURL != "" {
		return h.ports.git.Close()
	}
	log, err := h.openLog("git")
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(log, nil))
	onPush, err := h.refresher(logger)
	if err != nil {
		return err
	}
	server, err := localgit.New(localgit.Params{Dir: h.dir.Path("git"), OnPush: onPush, Logger: logger})
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
	h.group.Go(ctx, "demo repository", h.dir.Log("git"), func(ctx context.Context) error {
		return serve.Run(ctx, serve.Params{
			Config: serve.Config{Listener: h.ports.git, DrainTimeout: drainTimeout}, Public: server, Logger: logger,
		})
	})
	h.tell("repository", "serving "+h.repositoryURL())
	return nil
}

// refresher returns a function that notifies the git cache of a push, so that it fetches at once.
func (h *hub) refresher(logger *slog.Logger) (func(context.Context, string), error) {
	key, err := identity.NewServiceKey([]byte(h.dir.ServiceSecret(identity.ServiceDistributor)), identity.ServiceDistributor)
	if err != nil {
		return nil, err
	}
	base, err := rpc.NewClient(rpc.ClientParams{
		BaseURL: h.gitcacheURL(), Tokens: key.For(identity.ServiceGitCache), Telemetry: telemetry.Noop(), IsOutside: true,
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

func (h *hub) startGitcache(ctx context.Context, redisURL string) error {
	var cfg gitcache.Config
	err := h.configureHub("gitcache", &cfg, map[string]string{
		"LEAT_REDIS_URL":              redisURL,
		"LEAT_GITCACHE_DATA_DIR":      h.dir.Path("gitcache"),
		"LEAT_GITCACHE_ADVERTISE_URL": h.gitcacheURL(),
		// The embedded Redis begins empty, and grants a lease only after an earlier holder would
		// have lost it. There is no such holder here, so a short lease makes the first fetch after
		// a restart come soon.
		"LEAT_GITCACHE_LEASE_TTL": soloLease.String(),
		"LEAT_GITCACHE_FOLLOWERS": "0",
	})
	if err != nil {
		return err
	}
	return h.startService(ctx, "gitcache", h.ports.gitcache, &cfg.Serve, &cfg.Telemetry,
		func(ctx context.Context) error { return gitcache.Run(ctx, cfg) })
}

func (h *hub) startDistributor(ctx context.Context, _ string) error {
	var cfg distributor.Config
	err := h.configureHub("distributor", &cfg, map[string]string{
		"LEAT_DISTRIBUTOR_DATABASE_URL": "sqlite://" + h.dir.Path("catalog.db"),
		"LEAT_DISTRIBUTOR_DATA_DIR":     h.dir.Path("distributor"),
		"LEAT_DISTRIBUTOR_ADMIN_TOKEN":  h.dir.AdminToken,
		"LEAT_DISTRIBUTOR_PUBLIC_URL":   h.publicURL(),
		"LEAT_TRUSTED_PROXIES":          loopback,
		"LEAT_TUNNEL_URL":               h.tunnelURL(),
		"LEAT_GITCACHE_URL":             h.gitcacheURL(),
		// Receivers of notifications, back ends and identity providers that are tried run on this machine.
		"LEAT_ALLOW_LOCAL_AGENTS": "true",
	})
	if err != nil {
		return err
	}
	if cfg.Audit.Writer, err = h.openLog("changes"); err != nil {
		return err
	}
	return h.startService(ctx, "distributor", h.ports.distributor, &cfg.Serve, &cfg.Telemetry,
		func(ctx context.Context) error { return distributor.Run(ctx, cfg) })
}

func (h *hub) startTunnel(ctx context.Context, redisURL string) error {
	peers, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for other replicas of the tunnel: %w", err)
	}
	cfg := tunnel.Config{PeerListener: peers}
	err = h.configureHub("tunnel", &cfg, map[string]string{
		"LEAT_DISTRIBUTOR_URL":      h.distributorURL(),
		"LEAT_TRUSTED_PROXIES":      loopback,
		"LEAT_REDIS_URL":            redisURL,
		"LEAT_TUNNEL_ADVERTISE_URL": urlOf("https", peers),
		"LEAT_TUNNEL_PEER_CA_FILE":  h.certs.CA,
		"LEAT_TLS_CERT_FILE":        h.certs.Cert,
		"LEAT_TLS_KEY_FILE":         h.certs.Key,
	})
	if err != nil {
		return err
	}
	if cfg.Audit.Writer, err = h.openLog("audit"); err != nil {
		return err
	}
	return h.startService(ctx, "tunnel", h.ports.tunnel, &cfg.Serve, &cfg.Telemetry,
		func(ctx context.Context) error { return tunnel.Run(ctx, cfg) })
}

// configureHub is [base.configure] for a service of the hub, which must prove its identity to the
// others.
func (h *hub) configureHub(service string, cfg interface{ Bind(*config.Set) }, env map[string]string) error {
	keys, err := h.dir.ServiceKeys()
	if err != nil {
		return err
	}
	env["LEAT_SERVICE_SECRET"], env["LEAT_SERVICE_KEYS"] = h.dir.ServiceSecret(service), strings.Join(keys, ",")
	return h.configure(service, cfg, env)
}

// startService runs a service on its port and waits until it is ready.
func (h *hub) startService(ctx context.Context, name string, port net.Listener, serving *serve.Config, told *telemetry.Config, run func(context.Context) error) (err error) {
	serving.Listener = port
	if told.LogOutput, err = h.openLog(name); err != nil {
		return err
	}
	serving.InternalListener, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for probes of %s: %w", name, err)
	}
	h.group.Go(ctx, name, h.dir.Log(name), run)
	return h.waitReady(ctx, name, urlOf("http", serving.InternalListener))
}

// waitReady polls a service until it reports that it is ready.
func (h *hub) waitReady(ctx context.Context, name, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	httpClient, err := h.httpClient()
	if err != nil {
		return err
	}
	defer httpClient.CloseIdleConnections()
	if last := poll(ctx, 50*time.Millisecond, func() error { return ready(ctx, httpClient, url) }); last != nil {
		return failure.New(fmt.Sprintf("%s did not become ready: %v", name, last), "Its log is "+h.dir.Log(name)+".")
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

func (h *hub) httpClient() (*http.Client, error) {
	roots, err := h.roots()
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
	}, nil
}

// roots returns the hub's own authority.
func (h *hub) roots() (*x509.CertPool, error) {
	authority, err := os.ReadFile(h.certs.CA)
	if err != nil {
		return nil, fmt.Errorf("read authority: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return roots, nil
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
