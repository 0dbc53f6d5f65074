// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package gitcache is the service that mirrors upstream repositories and answers questions about
// their content. It is the only part of the hub that talks to upstreams, and at any instant only
// one of its replicas talks to any one of them.
//
// See README.md for what it needs, and for what happens when that is missing.
package gitcache

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/leatdev/leat/internal/kit/lease/leaseredis"
	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/internal/runtime/redisconn"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/gitcache/internal/api"
	"github.com/leatdev/leat/services/gitcache/internal/api/replica"
	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
	"github.com/leatdev/leat/services/gitcache/internal/forge"
	"github.com/leatdev/leat/services/gitcache/internal/lfs"
	"github.com/leatdev/leat/services/gitcache/internal/lfshttp"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
	"github.com/leatdev/leat/services/gitcache/internal/pushing"
	"github.com/leatdev/leat/services/gitcache/internal/redisdeliveries"
	"github.com/leatdev/leat/services/gitcache/internal/redisevents"
	"github.com/leatdev/leat/services/gitcache/internal/redispeers"
	"github.com/leatdev/leat/services/gitcache/internal/redisregistry"
	"github.com/leatdev/leat/services/gitcache/internal/replicas"
	"github.com/leatdev/leat/services/gitcache/internal/submodule"
)

const (
	program = "gitcache"
	scope   = "github.com/leatdev/leat/services/gitcache"
	// prefix begins every key in Redis. Its braces put all of them into one slot of a cluster,
	// because scripts touch several at once.
	prefix = "leat:{gitcache}:"
)

// Run runs one replica until ctx is done. It gives its leases back at once, then lets running calls
// finish.
func Run(ctx context.Context, cfg Config) (err error) {
	cfg = cfg.completed()
	if err := cfg.check(); err != nil {
		return err
	}
	tel, err := telemetry.Start(ctx, cfg.Telemetry, program)
	if err != nil {
		return err
	}
	defer tel.Shutdown(ctx)
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
	client, err := redisconn.Open(cfg.RedisURL, cfg.RedisCAFile)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	if err := serve.ObserveDependencies(tel.Meter(scope), map[string]func(context.Context) error{
		"redis": func(ctx context.Context) error { return client.Ping(ctx).Err() },
	}); err != nil {
		return err
	}
	trust, err := openTrust(cfg, self, tel)
	if err != nil {
		return err
	}
	sealer, err := trust.sealer()
	if err != nil {
		return err
	}
	registry := redisregistry.New(redisregistry.Params{
		Client: client, Prefix: prefix, Sealer: sealer, Path: filepath.Join(cfg.DataDir, "repositories.json"), Logger: logger,
	})
	disk, err := openDisk(cfg, registry.Root, tel)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, disk.Close()) }()

	settings := cfg.settings()
	events, err := redisevents.New(redisevents.Config{Client: client, Prefix: prefix, Secret: trust.secrets[0], Accepted: trust.secrets[1:]})
	if err != nil {
		return err
	}
	members := redispeers.New(redispeers.Params{
		Client: client, Prefix: prefix, Self: trust.self, TTL: settings.LeaseTTL, Logger: logger,
	})
	others := replicas.New(trust.dial) // the one way to reach another replica, for the core and for the edge
	set, err := mirroring.NewSet(mirroring.Deps{
		Backend: disk.mirrors, Named: registry, Events: events,
		Objects: &lfs.Copier{Store: disk.objects, Holders: others.Objects()},
		Leases:  leaseredis.New(client, prefix), Peers: members, Replicas: others,
		Self: trust.self, Settings: settings, Logger: logger, Tracer: tel.Tracer(scope), Meter: tel.Meter(scope),
	})
	if err != nil {
		return err
	}
	if err := registry.Start(ctx, set.Apply); err != nil {
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
		Set: set, Shared: shared, Registry: registry, Mirrors: disk.mirrors, Events: events, Check: disk.mirrors.Check, Logger: logger,
	})
	snapshots, err := disk.newBuilder(cfg, set, objects, submodules, chartdep.NewFinder(set), tel)
	if err != nil {
		return err
	}
	pusher, err := pushing.New(pushing.Params{
		Upstreams: disk.git, Forges: forge.New(disk.git), Mirrors: disk.mirrors, Meter: tel.Meter(scope),
	})
	if err != nil {
		return err
	}
	hooks := redisdeliveries.NewLog(client, prefix)
	service := api.New(api.Params{
		Hooks: hooks, Set: set, Registry: registry, Checker: disk.mirrors, Events: events, Mirrors: disk.mirrors, Snapshots: snapshots,
		Pusher: pusher, Dial: others.GitCache, Logger: logger, Tracer: tel.Tracer(scope), Heartbeat: cfg.Heartbeat,
	})
	webhooks, err := newWebhooks(cfg, set, redisdeliveries.New(client, prefix), hooks, tel)
	if err != nil {
		return err
	}
	handler, err := newHandler(service, replica.New(set, disk.mirrors, objects), webhooks, trust.verifier, tel)
	if err != nil {
		return err
	}

	logger.InfoContext(ctx, "replica started", slog.String("url", self), slog.String("version", app.Version()))
	return run(ctx, serve.Params{
		Config: cfg.Serve, Public: handler, Internal: newInternal(registry, tel), Logger: logger, Meter: tel.Meter(scope),
	}, registry.Run, members.Run, set.Run, submodules.Run, webhooks.Run, disk.run)
}
