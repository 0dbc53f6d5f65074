// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package gitcache is the service that mirrors upstream repositories and answers questions about their content. It is the
// only part of the hub that talks to upstreams, and at any instant only one of its replicas talks to any one of them.
//
// See README.md for what it needs, and for what happens when that is missing.
package gitcache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/app"
	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/cas/casdisk"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/lease/leaseredis"
	"github.com/leatdev/leat/internal/private"
	"github.com/leatdev/leat/internal/redisconn"
	"github.com/leatdev/leat/internal/rpc"
	"github.com/leatdev/leat/internal/seal"
	"github.com/leatdev/leat/internal/serve"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/gitcache/internal/api"
	"github.com/leatdev/leat/services/gitcache/internal/credfile"
	"github.com/leatdev/leat/services/gitcache/internal/lfs"
	"github.com/leatdev/leat/services/gitcache/internal/lfshttp"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
	"github.com/leatdev/leat/services/gitcache/internal/redisdeliveries"
	"github.com/leatdev/leat/services/gitcache/internal/redisevents"
	"github.com/leatdev/leat/services/gitcache/internal/redispeers"
	"github.com/leatdev/leat/services/gitcache/internal/redisregistry"
	"github.com/leatdev/leat/services/gitcache/internal/replicas"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot"
	"github.com/leatdev/leat/services/gitcache/internal/submodule"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
	"github.com/leatdev/leat/services/gitcache/internal/webhook"
)

const (
	program = "gitcache"
	scope   = "github.com/leatdev/leat/services/gitcache"
	// prefix begins every key in Redis. Its braces put all of them into one slot of a cluster, because scripts touch
	// several at once.
	prefix = "leat:{gitcache}:"

	shutdownTimeout = 5 * time.Second
)

// Run runs one replica until ctx is done. It gives its leases back at once, then lets running calls finish.
func Run(ctx context.Context, cfg Config) (err error) {
	if err := cfg.check(); err != nil {
		return err
	}
	tel, err := telemetry.Start(ctx, cfg.Telemetry, program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shutdown(ctx, tel)) }()
	logger := tel.Logger()

	listener, err := cfg.Serve.Listen()
	if err != nil {
		return err
	}
	cfg.Serve.Listener = listener
	defer func() { _ = listener.Close() }() // closed already where serve.Run came to it
	self, err := cfg.advertise(listener)
	if err != nil {
		return err
	}
	// The set works on the disk and on the definitions of the registry, and both ask it about repositories. They do so only
	// when it exists: the registry from Start on, the disk when a repository of the set is fetched.
	var set *mirroring.Set
	disk, err := openDisk(cfg, func(uid string) (string, bool) { return urlOf(set, uid) }, tel)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	client, err := redisconn.Open(cfg.RedisURL, cfg.RedisCAFile)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	trust, err := openTrust(cfg, self, tel)
	if err != nil {
		return err
	}
	sealer, err := seal.NewSealer(trust.secret, "repository definition")
	if err != nil {
		return err
	}

	if err := observeStore(tel.Meter(scope), disk.bundles); err != nil {
		return err
	}

	settings := cfg.settings()
	events, err := redisevents.New(redisevents.Config{Client: client, Prefix: prefix, Secret: trust.secret})
	if err != nil {
		return err
	}
	members := redispeers.New(redispeers.Params{
		Client: client, Prefix: prefix, Self: trust.self, TTL: settings.LeaseTTL, Logger: logger,
	})
	others := replicas.New(trust.dial) // the one way to reach another replica, for the core and for the edge
	registry := redisregistry.New(redisregistry.Params{
		Client: client, Prefix: prefix, Sealer: sealer, Path: filepath.Join(cfg.DataDir, "repositories.json"),
		Apply: func(defs []mirror.Definition) { set.Apply(defs) }, Logger: logger,
	})
	set, err = mirroring.NewSet(mirroring.Deps{
		Backend: disk.git, Named: registry, Events: events,
		Objects: &lfs.Copier{Store: disk.objects, Holders: others.Objects()},
		Leases:  leaseredis.New(client, prefix), Peers: members, Replicas: others,
		Self: trust.self, Settings: settings, Logger: logger, Tracer: tel.Tracer(scope), Meter: tel.Meter(scope),
	})
	if err != nil {
		return err
	}
	if err := registry.Start(ctx); err != nil {
		return err
	}
	if err := members.Beat(ctx); err != nil {
		logger.WarnContext(ctx, "heartbeat not recorded", slog.Any("error", err))
	}
	objects := lfs.NewObjects(lfs.Params{
		Store: disk.objects, Server: lfshttp.New(disk.git), Holders: others.Objects(), Find: set.Find, Logger: logger,
	})
	shared, err := cfg.submodulePrefixes()
	if err != nil {
		return err
	}
	submodules := submodule.New(submodule.Params{
		Set: set, Shared: shared, Registry: registry, Mirrors: disk.git, Events: events, Check: disk.git.Check, Logger: logger,
	})
	snapshots, err := disk.newBuilder(cfg, set, objects, submodules, tel)
	if err != nil {
		return err
	}
	service := api.New(api.Params{
		Set: set, Registry: registry, Checker: disk.git, Events: events, Mirrors: disk.git, Snapshots: snapshots,
		Dial: others.GitCache, Logger: logger, Tracer: tel.Tracer(scope), Heartbeat: cfg.Heartbeat,
	})
	webhooks, err := newWebhooks(cfg, set, redisdeliveries.New(client, prefix), tel)
	if err != nil {
		return err
	}
	handler, err := newHandler(service, api.NewReplica(set, disk.git, objects), webhooks, trust.verifier, tel)
	if err != nil {
		return err
	}

	logger.InfoContext(ctx, "replica started", slog.String("url", self), slog.String("version", app.Version()))
	group, ctx := errgroup.WithContext(ctx)
	loops := []func(context.Context) error{registry.Run, members.Run, set.Run, submodules.Run, webhooks.Run}
	if disk.credentials != nil {
		loops = append(loops, disk.credentials.Run)
	}
	for _, run := range loops {
		group.Go(func() error { return run(ctx) })
	}
	group.Go(func() error {
		_ = disk.bundles.Run(ctx, nil) // returns only why ctx ended
		return nil
	})
	group.Go(func() error {
		return serve.Run(ctx, serve.Params{
			Config: cfg.Serve, Public: handler, Internal: newInternal(registry, tel), Logger: logger, Meter: tel.Meter(scope),
		})
	})
	return group.Wait()
}

// urlOf returns the URL of the repository with that UID, or false while the repository is unknown.
func urlOf(set *mirroring.Set, uid string) (string, bool) {
	r, err := set.Find(uid)
	if err != nil {
		return "", false
	}
	return r.Definition().URL, true
}

// observeStore shows how full the store for bundles is.
func observeStore(meter metric.Meter, store cas.Store) error {
	used, err := meter.Int64ObservableGauge("leat.cas.usage", metric.WithUnit("By"), metric.WithDescription("Bytes of stored bundles."))
	limit, err2 := meter.Int64ObservableGauge("leat.cas.limit", metric.WithUnit("By"), metric.WithDescription("Bound of leat.cas.usage."))
	_, err3 := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		usage, err := store.Usage(ctx)
		if err != nil {
			return err
		}
		o.ObserveInt64(used, usage.Bytes)
		o.ObserveInt64(limit, usage.MaxBytes)
		return nil
	}, used, limit)
	if err := errors.Join(err, err2, err3); err != nil {
		return fmt.Errorf("make metrics: %w", err)
	}
	return nil
}

func shutdown(ctx context.Context, tel *telemetry.Telemetry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	return tel.Shutdown(ctx)
}

// newInternal returns the handler for probes and scrapes.
func newInternal(registry *redisregistry.Registry, tel *telemetry.Telemetry) http.Handler {
	health := serve.NewHealth()
	health.Register("definitions", registry.Loaded)
	return serve.NewInternal(serve.InternalParams{
		Health: health, Telemetry: tel,
		Services: []string{gitcachev1connect.GitCacheServiceName, gitcachev1connect.ReplicaServiceName},
	})
}

// newHandler returns the handler for webhooks and for calls of other services.
func newHandler(
	service *api.Service, replica *api.Replica, webhooks *webhook.Handler, verifier identity.Verifier, tel *telemetry.Telemetry,
) (http.Handler, error) {
	server, err := rpc.NewServer(rpc.ServerParams{Telemetry: tel, Logger: tel.Logger(), Verifier: verifier})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	path, handler := gitcachev1connect.NewGitCacheServiceHandler(service, slices.Concat(server.Options(), api.Options())...)
	mux.Handle(path, server.Guard(handler))
	path, handler = gitcachev1connect.NewReplicaServiceHandler(replica, slices.Concat(server.Options(), api.ReplicaOptions())...)
	mux.Handle(path, server.Guard(handler))
	mux.Handle(webhook.Pattern, webhooks)
	mux.Handle(webhook.RepositoryPattern, webhooks)
	return mux, nil
}

// newWebhooks returns the handler of webhooks. One may arrive at any replica; the set finds the
// owner.
func newWebhooks(
	cfg Config, set *mirroring.Set, deliveries webhook.Deliveries, tel *telemetry.Telemetry,
) (*webhook.Handler, error) {
	return webhook.New(webhook.Params{
		Deliveries:   deliveries,
		Repositories: set.Definitions,
		Refresh: func(ctx context.Context, name string) error {
			_, err := set.Refresh(ctx, name, false)
			return err
		},
		DefaultSecret: mirror.Secret(cfg.WebhookSecret.Reveal()), MaxBody: int64(cfg.MaxWebhook),
		Logger: tel.Logger(), Tracer: tel.Tracer(scope), Meter: tel.Meter(scope),
	})
}

// disk is everything below the data folder. It is opened as a whole, before anything that could change it runs.
type disk struct {
	git backend
	// credentials are those by URL prefix; nil where no file is set.
	credentials *credfile.File
	objects     *lfs.Store
	bundles     *casdisk.Store
	index       *snapshot.Index
	temporary   string
}

func openDisk(cfg Config, root func(uid string) (string, bool), tel *telemetry.Telemetry) (*disk, error) {
	temporary := filepath.Join(cfg.DataDir, "tmp")
	if err := private.Dir(cfg.DataDir); err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	d := &disk{temporary: temporary}
	var err error
	// First, because it is what keeps two processes from using one folder.
	d.bundles, err = casdisk.Open(casdisk.Config{
		Dir: filepath.Join(cfg.DataDir, "bundles"), MaxBytes: int64(cfg.BundleCache), MaxContentBytes: int64(cfg.MaxBundleBytes),
		Logger: tel.Logger(),
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.RemoveAll(temporary), os.MkdirAll(temporary, 0o700)); err != nil {
		return nil, errors.Join(fmt.Errorf("make temporary folder: %w", err), d.Close())
	}
	if d.index, err = snapshot.OpenIndex(filepath.Join(cfg.DataDir, "digests.log")); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if d.objects, err = lfs.OpenStore(filepath.Join(cfg.DataDir, "lfs")); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := d.openGit(cfg, root, tel); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *disk) newBuilder(
	cfg Config, blobs snapshot.Blobs, objects snapshot.Objects, submodules snapshot.Submodules, tel *telemetry.Telemetry,
) (*snapshot.Builder, error) {
	return snapshot.NewBuilder(snapshot.Params{
		Mirrors: d.git, Blobs: blobs, Objects: objects, Submodules: submodules, Store: d.bundles, Index: d.index, Limits: cfg.limits(), TempDir: d.temporary,
		Builds: cfg.Builds, Logger: tel.Logger(), Tracer: tel.Tracer(scope), Meter: tel.Meter(scope),
	})
}

// openGit opens mirrors and upstreams, with the credentials that are shared by prefix.
func (d *disk) openGit(cfg Config, root func(uid string) (string, bool), tel *telemetry.Telemetry) error {
	var credentials uploadpack.Credentials
	if cfg.CredentialsFile != "" {
		d.credentials = credfile.New(cfg.CredentialsFile, tel.Logger())
		credentials = d.credentials
	}
	var err error
	d.git, err = newBackend(cfg, filepath.Join(cfg.DataDir, "mirrors"), credentials, root, tel.Logger())
	if err != nil || d.credentials == nil {
		return err
	}
	return d.credentials.Load(d.git.Check)
}

// Close closes what was opened.
func (d *disk) Close() error {
	var errs []error
	if d.index != nil {
		errs = append(errs, d.index.Close())
	}
	return errors.Join(append(errs, d.bundles.Close())...)
}
