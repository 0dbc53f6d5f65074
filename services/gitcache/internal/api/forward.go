// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

const (
	// forwardedHeader marks a call that another replica sent here: with toOwner because it takes this one for the owner,
	// with toHolder because this one may hold a mirror. Such a call is never forwarded again.
	forwardedHeader = "Leat-Forwarded"
	toOwner         = "1"
	toHolder        = "holder"
	// maxRoutes is how many owners are asked for one call before it is answered here.
	maxRoutes = 3
	// ownerCheck is the time between two looks at whether the replica that is asked still owns the repository.
	ownerCheck = time.Second
	retryOwner = 2 * time.Second
)

type client = gitcachev1connect.GitCacheServiceClient

// answer lets the owner of the repository answer, or answers here: where this replica is the owner, where there is none,
// and where the owner does not answer. What cannot be answered for want of a mirror is asked of a replica that has one.
func answer[Req, Resp any](
	ctx context.Context, s *Service, r *mirroring.Repository,
	call func(client, context.Context, *Req) (*Resp, error), req *Req, local func(context.Context) (*Resp, error),
) (*Resp, error) {
	ctx = annotate(ctx, r)
	var cold error // the owner has no mirror yet
	for range maxRoutes {
		owner, url, err := s.elsewhere(ctx, r)
		if err != nil {
			return nil, err
		}
		if owner == nil {
			break
		}
		asking, stop := whileOwner(ctx, r, url)
		resp, err := call(owner, forwarded(asking, toOwner), req)
		stop()
		if isCold(err) {
			cold = err
			break
		}
		if err == nil || !s.unanswered(ctx, r, err) {
			return resp, err
		}
	}
	if _, err := r.Content(); err == nil || r.Epoch() != 0 {
		resp, err := local(ctx)
		if !isCold(err) {
			return resp, err
		}
		cold = err
	}
	if resp, err := askHolders(ctx, s, r, call, req); err == nil || !errors.Is(err, errNoHolder) {
		return resp, err
	}
	if cold != nil {
		return nil, cold
	}
	return local(ctx)
}

// whileOwner returns a context that ends when another replica, or none, owns the repository. An owner may take long to
// answer, as long as it renews its lease; one that is frozen cannot.
func whileOwner(ctx context.Context, r *mirroring.Repository, url string) (context.Context, context.CancelFunc) {
	asking, cancel := context.WithCancel(ctx)
	go func() { // ends with asking, which the caller cancels
		for backoff.Wait(asking, ownerCheck) == nil {
			if now, err := r.Owner(asking); err == nil && now != url {
				cancel()
			}
		}
	}()
	return asking, cancel
}

func annotate(ctx context.Context, r *mirroring.Repository) context.Context {
	trace.SpanFromContext(ctx).SetAttributes(
		attribute.String("leat.repository", r.Definition().Name), attribute.Int64("leat.epoch", int64(r.Epoch())))
	return ctx
}

// elsewhere returns the replica that owns the repository, or nil where the call is to be answered here.
func (s *Service) elsewhere(ctx context.Context, r *mirroring.Repository) (client, string, error) {
	if r.Epoch() != 0 || forwardedTo(ctx) == toHolder {
		return nil, "", nil
	}
	if forwardedTo(ctx) != "" {
		return nil, "", rpcerr.New(connect.CodeAborted, errorsv1.Reason_REASON_OWNERSHIP_LOST,
			"This replica does not own the repository any more; call again, another one takes over.")
	}
	url, err := r.Owner(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, "", err
	}
	if err != nil || url == "" || url == s.Self {
		return nil, "", nil //nolint:nilerr // while nobody can tell who owns it, what is mirrored here is served
	}
	owner, err := s.peers.get(url)
	if err != nil { // the name was not signed by a replica of this hub
		s.Logger.WarnContext(ctx, "owner cannot be called, answering here", slog.String("repository", r.Definition().Name), slog.Any("error", err))
		return nil, "", nil
	}
	return owner, url, nil
}

// unanswered tells whether an error means that the owner could not be reached or is none any more, as opposed to an
// answer that happens to be an error.
func (s *Service) unanswered(ctx context.Context, r *mirroring.Repository, err error) bool {
	if ctx.Err() != nil || !isNoAnswer(err) {
		return false
	}
	r.ForgetOwner()
	s.Logger.InfoContext(ctx, "owner does not answer, answering here",
		slog.String("leat.repository", r.Definition().Name), slog.Any("error", err))
	return true
}

// isNoAnswer tells an error of getting an answer from an answer that is an error.
func isNoAnswer(err error) bool {
	switch rpcerr.ReasonOf(err) {
	case errorsv1.Reason_REASON_OWNERSHIP_LOST, errorsv1.Reason_REASON_SHUTTING_DOWN, errorsv1.Reason_REASON_INTERNAL,
		errorsv1.Reason_REASON_DEADLINE_EXCEEDED, errorsv1.Reason_REASON_CANCELED: // of the owner's own making: ctx goes on
	default:
		code := connect.CodeOf(err)
		if rpcerr.HasReason(err) || (code != connect.CodeUnavailable && code != connect.CodeDeadlineExceeded && code != connect.CodeUnknown) {
			return false
		}
	}
	return true
}

func forwarded(ctx context.Context, to string) context.Context {
	ctx, info := connect.NewClientContext(ctx)
	info.RequestHeader().Set(forwardedHeader, to)
	return ctx
}

// forwardedTo returns what another replica takes this one for; "" where the call comes from a caller.
func forwardedTo(ctx context.Context) string {
	info, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok {
		return ""
	}
	return info.RequestHeader().Get(forwardedHeader)
}

// contentOf returns what this replica's mirror holds. Where it holds nothing and does not own the repository either, only
// an owner can help.
func contentOf(r *mirroring.Repository) (mirror.Content, error) {
	c, err := r.Content()
	if errors.Is(err, mirror.ErrNotReady) && r.Epoch() == 0 {
		return mirror.Content{}, rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_OWNER_UNAVAILABLE,
			"No replica owns the repository at the moment, and this one has no mirror of it.",
			rpcerr.RetryAfter(retryOwner), rpcerr.With("repository", r.Definition().Name))
	}
	if err != nil {
		return mirror.Content{}, toError(err, r.Definition().Name)
	}
	return c, nil
}

// peers are the clients of other replicas. URLs come from leases, of which there are as many as replicas.
type peers struct {
	dial func(string) (client, error)

	mu    sync.Mutex
	byURL map[string]client
}

func newPeers(dial func(string) (client, error)) *peers {
	return &peers{dial: dial, byURL: map[string]client{}}
}

func (p *peers) get(url string) (client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.byURL[url]; ok {
		return c, nil
	}
	c, err := p.dial(url)
	if err != nil {
		return nil, err
	}
	p.byURL[url] = c
	return c, nil
}
