// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"log/slog"
	"sync"
	"time"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/api/wire"
	"github.com/leatdev/leat/services/gitcache/internal/forward"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// statesTimeout is how long another replica may take to answer from its memory. Its repositories
// are left out after that.
const statesTimeout = time.Second

// GetRepositoryStates implements the call: each replica answers for the repositories that it owns.
// That is one call per replica, however many repositories are named, and no poll costs anything.
func (s *Service) GetRepositoryStates(
	ctx context.Context, req *gitcachev1.GetRepositoryStatesRequest,
) (*gitcachev1.GetRepositoryStatesResponse, error) {
	if len(req.GetNames()) > wire.MaxPage {
		return nil, rpcerr.Field("names", "It must hold at most 1000 names.")
	}
	resp := &gitcachev1.GetRepositoryStatesResponse{States: map[string]*gitcachev1.RepositoryState{}}
	for _, name := range req.GetNames() {
		if r, err := s.Set.Get(name); err == nil && r.Epoch() != 0 {
			resp.States[name] = wire.StateMessage(r.State())
		}
	}
	if forward.Via(ctx) != mirror.ViaCaller || len(resp.GetStates()) == len(req.GetNames()) {
		return resp, nil
	}
	ctx, cancel := context.WithTimeout(forward.Mark(ctx, mirror.ViaHolder), statesTimeout)
	defer cancel()
	var mu sync.Mutex // guards resp.States
	var asking sync.WaitGroup
	for _, replica := range s.Set.OtherReplicas() {
		asking.Go(func() {
			states, err := s.statesOf(ctx, replica, req)
			if err != nil {
				s.Logger.DebugContext(ctx, "replica does not report states", slog.Any("error", err))
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for name, state := range states { // of two owners the later one is right
				if state.GetEpoch() > resp.GetStates()[name].GetEpoch() {
					resp.States[name] = state
				}
			}
		})
	}
	asking.Wait()
	return resp, nil
}

func (s *Service) statesOf(
	ctx context.Context, replica string, req *gitcachev1.GetRepositoryStatesRequest,
) (map[string]*gitcachev1.RepositoryState, error) {
	other, err := s.Dial(replica)
	if err != nil {
		return nil, err
	}
	resp, err := other.GetRepositoryStates(ctx, req)
	return resp.GetStates(), err
}
