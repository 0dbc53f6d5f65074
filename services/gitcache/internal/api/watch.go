// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/services/gitcache/internal/api/wire"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// probeTimeout bounds the question whether the log answers. The client of Redis dials again and again, for 40 seconds.
// A caller that has left a stream here comes back to this replica as likely as to another one, and hears of no change
// until it is sent away.
const probeTimeout = 3 * time.Second

type watchStream = connect.ServerStream[gitcachev1.WatchRepositoriesResponse]

// WatchRepositories implements the call.
func (s *Service) WatchRepositories(
	ctx context.Context, req *gitcachev1.WatchRepositoriesRequest, stream *watchStream,
) error {
	token := req.GetResumeToken()
	if token == "" {
		var err error
		if token, err = s.sendStates(ctx, req.GetIncludeSubmodules(), stream); err != nil {
			return err
		}
	} else if err := s.probe(ctx, token); err != nil {
		return wire.Error(err, "")
	}
	if err := stream.Send(&gitcachev1.WatchRepositoriesResponse{ResumeToken: token, Synced: true}); err != nil {
		return fmt.Errorf("send synced: %w", err)
	}
	return s.follow(ctx, token, req.GetIncludeSubmodules(), stream)
}

// probe returns nil if a stream can be resumed here after token.
func (s *Service) probe(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return s.Events.Probe(ctx, token)
}

// sendStates sends the state of every repository, and returns the token from which live events
// follow. None of these messages carries a token: a listing that broke off cannot be resumed in its
// middle.
func (s *Service) sendStates(ctx context.Context, submodules bool, stream *watchStream) (string, error) {
	events, token, err := s.Events.States(ctx)
	if err != nil {
		return "", wire.Error(err, "")
	}
	last := make(map[string]mirror.Event, len(events))
	for _, e := range events {
		last[e.Repository] = e
	}
	for _, r := range s.Set.List() {
		def := r.Definition()
		if hidden(def.Name, submodules) {
			continue
		}
		e, ok := last[def.Name]
		if !ok || e.UID != def.UID || r.Epoch() != 0 { // what this replica owns it knows best
			e = mirror.Event{Repository: def.Name, UID: def.UID, Time: time.Now(), State: r.State()}
			e.Epoch = e.State.Epoch
		}
		e.Changed, e.All, e.FetchDuration, e.Traceparent = nil, true, 0, ""
		if err := stream.Send(&gitcachev1.WatchRepositoriesResponse{Event: wire.EventMessage(e)}); err != nil {
			return "", fmt.Errorf("send state: %w", err)
		}
	}
	return token, nil
}

// follow sends live events, and heartbeats in between.
func (s *Service) follow(ctx context.Context, token string, submodules bool, stream *watchStream) error {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	events, failed := make(chan mirror.Logged), make(chan error, 1)
	go func() { failed <- s.pump(reading, token, events) }() // ends with reading
	heartbeat := time.NewTicker(s.Heartbeat)
	defer heartbeat.Stop()
	for {
		resp := &gitcachev1.WatchRepositoriesResponse{ResumeToken: token}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-serve.Draining(ctx):
			return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_SHUTTING_DOWN,
				"The server is shutting down; connect to another replica.")
		case err := <-failed:
			return wire.Error(err, "")
		case <-heartbeat.C:
		case logged := <-events:
			token = logged.Token
			if hidden(logged.Event.Repository, submodules) {
				continue
			}
			resp.ResumeToken, resp.Event = token, wire.EventMessage(logged.Event)
			heartbeat.Reset(s.Heartbeat)
		}
		if err := stream.Send(resp); err != nil {
			return fmt.Errorf("send event: %w", err)
		}
	}
}

// hidden reports whether a repository is a submodule's and the caller did not ask for those.
func hidden(name string, submodules bool) bool {
	return !submodules && strings.Contains(name, mirror.SubmoduleMark)
}

// pump reads the log into events until ctx is done, the token expires or the log does not answer. This replica
// alone may be cut off from it, and a stream that went on with heartbeats would keep its caller from asking
// another one. The caller misses nothing, because the token tells.
func (s *Service) pump(ctx context.Context, token string, events chan<- mirror.Logged) error {
	for {
		batch, err := s.Events.Read(ctx, token)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		}
		for _, logged := range batch {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case events <- logged:
				token = logged.Token
			}
		}
	}
}
