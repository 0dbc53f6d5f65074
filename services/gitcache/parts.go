// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache

import (
	"context"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/gitcache/internal/api"
	"github.com/leatdev/leat/services/gitcache/internal/api/replica"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
	"github.com/leatdev/leat/services/gitcache/internal/redisregistry"
	"github.com/leatdev/leat/services/gitcache/internal/webhook"
)

// run serves until ctx is done or a part fails. All parts end at once: leases are given back while
// the server drains.
func run(ctx context.Context, server serve.Params, parts ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serve.Run(ctx, server) })
	for _, part := range parts {
		group.Go(func() error { return part(ctx) })
	}
	return group.Wait()
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
	service *api.Service, replicas *replica.Service, webhooks *webhook.Handler,
	verifier identity.Verifier, tel *telemetry.Telemetry,
) (http.Handler, error) {
	server, err := rpc.NewServer(rpc.ServerParams{Telemetry: tel, Logger: tel.Logger(), Verifier: verifier})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	path, handler := gitcachev1connect.NewGitCacheServiceHandler(service, slices.Concat(server.Options(), api.Options())...)
	mux.Handle(path, server.Guard(handler))
	path, handler = gitcachev1connect.NewReplicaServiceHandler(
		replicas, slices.Concat(server.Options(), api.ReplicaOptions())...)
	mux.Handle(path, server.Guard(handler))
	mux.Handle(webhook.Pattern, webhooks)
	mux.Handle(webhook.RepositoryPattern, webhooks)
	return mux, nil
}

// newWebhooks returns the handler of webhooks. One may arrive at any replica; the set finds the
// owner.
func newWebhooks(
	cfg Config, set *mirroring.Set, deliveries webhook.Deliveries, log webhook.Log, tel *telemetry.Telemetry,
) (*webhook.Handler, error) {
	return webhook.New(webhook.Params{
		Deliveries:   deliveries,
		Log:          log,
		Repositories: set.Definitions,
		Refresh: func(ctx context.Context, name string) error {
			_, err := set.Refresh(ctx, name, false)
			return err
		},
		DefaultSecret: secret.Text(cfg.WebhookSecret.Reveal()), MaxBody: int64(cfg.MaxWebhook),
		Logger: tel.Logger(), Tracer: tel.Tracer(scope), Meter: tel.Meter(scope),
	})
}
