// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package api answers GitCacheService: it checks requests, has them answered by the replica that the
// core names, and translates with package wire. The calls of other replicas are package replica's.
package api

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/api/wire"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/hooklog"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
	"github.com/leatdev/leat/services/gitcache/internal/pushing"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot"
)

// Registry is the port for the calls about definitions.
type Registry interface {
	mirror.Registry
	// Missed is called when a name is not known: another replica may have been told a moment ago.
	Missed(ctx context.Context) error
}

// Checker reports whether a definition can be used; the error is a *mirror.FieldError.
type Checker interface {
	Check(def mirror.Definition) error
}

// Params are the parts of a [Service]. All are required but Heartbeat.
type Params struct {
	Hooks     Hooks
	Set       *mirroring.Set
	Registry  Registry
	Checker   Checker
	Events    mirror.EventLog
	Mirrors   content.Opener
	Snapshots *snapshot.Builder
	Pusher    Pusher
	// Dial returns the client for the replica of a name.
	Dial   func(replica string) (gitcachev1connect.GitCacheServiceClient, error)
	Logger *slog.Logger
	Tracer trace.Tracer
	// Heartbeat is the longest silence of a stream of events. Zero: 20 s.
	Heartbeat time.Duration
}

// Hooks has the record of webhooks, of all replicas. Its methods may be called concurrently.
type Hooks interface {
	// Latest returns the newest webhooks about the repository of that uid, the newest first. The error
	// matches mirror.ErrDependency.
	Latest(ctx context.Context, uid string) ([]hooklog.Record, error)
}

// Pusher pushes commits to upstreams. It may be used concurrently.
type Pusher interface {
	// Push pushes a commit, and opens its pull request. Errors are those of package pushing.
	Push(ctx context.Context, r pushing.Repository, req pushing.Request) (pushing.Result, error)
}

const defaultHeartbeat = 20 * time.Second

// Service implements GitCacheService. Use [Options] with its handler, which lets only services in.
type Service struct{ Params }

var _ gitcachev1connect.GitCacheServiceHandler = (*Service)(nil)

// New returns a Service.
func New(p Params) *Service {
	if p.Heartbeat <= 0 {
		p.Heartbeat = defaultHeartbeat
	}
	return &Service{Params: p}
}

// repository returns the repository of a name that a request holds in the given field.
func (s *Service) repository(ctx context.Context, field, name string) (*mirroring.Repository, error) {
	if err := wire.CheckAnyName(field, name); err != nil {
		return nil, err
	}
	r, err := s.Set.Get(name)
	if err == nil {
		return r, r.AwaitLoaded(ctx)
	}
	if missed := s.Registry.Missed(ctx); missed != nil {
		s.Logger.DebugContext(ctx, "definitions not read again", slog.Any("error", missed))
	}
	if r, err = s.Set.Get(name); err != nil {
		return nil, wire.Error(err, name)
	}
	return r, r.AwaitLoaded(ctx)
}

// contentOf returns what this replica's mirror holds. Where it holds nothing and does not own the
// repository either, only an owner can help.
func contentOf(r *mirroring.Repository) (mirror.Content, error) {
	c, err := r.Content()
	if errors.Is(err, mirror.ErrNotReady) && r.Epoch() == 0 {
		return mirror.Content{}, rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_OWNER_UNAVAILABLE,
			"No replica owns the repository at the moment, and this one has no mirror of it.",
			rpcerr.RetryAfter(wire.RetryOwner), rpcerr.With("repository", r.Definition().Name))
	}
	if err != nil {
		return mirror.Content{}, wire.Error(err, r.Definition().Name)
	}
	return c, nil
}
