// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// pageSize is how many definitions are listed at once.
	pageSize = 1000
	// callTimeout bounds one call that does not wait for an upstream.
	callTimeout = 30 * time.Second
)

// Push has the definitions compared soon, because one may have changed.
func (s *Source) Push() { s.pushed.Set() }

// MonitorDefinitions keeps gitcache's definitions equal to the catalog's until ctx is done: at
// once, after every Push, and from time to time.
func (s *Source) MonitorDefinitions(ctx context.Context) error {
	failures := 0
	for {
		wait := backoff.Jitter(s.p.ReconcileEvery, 0.25)
		if err := s.Reconcile(ctx); err != nil && ctx.Err() == nil {
			s.p.Logger.Log(ctx, levelOf(failures), "repository definitions not pushed; trying again", slog.Any("error", err))
			if rpcerr.IsRefusedToken(err) {
				s.refused.Set()
			}
			wait = min(wait, backoff.Policy{Initial: time.Second}.Delay(failures))
			failures++
		} else {
			failures = 0
		}
		if err := s.pushed.Await(ctx, wait); err != nil {
			return err
		}
	}
}

// Reconcile makes gitcache know every definition of the catalog, and forget the ones that were
// deleted from it. A definition that the catalog has never heard of is left alone: it may be the
// catalog that lost its memory.
func (s *Source) Reconcile(ctx context.Context) error {
	wanted, deleted, err := s.p.Definitions.Definitions(ctx)
	if err != nil {
		return err
	}
	known, err := s.known(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, repository := range wanted {
		have, ok := known[repository.Name]
		if ok && have.GetUid() == repository.UID && have.GetVersion() >= repository.ResourceVersion {
			continue
		}
		errs = append(errs, s.put(ctx, repository))
	}
	for _, stone := range deleted {
		isWanted := slices.ContainsFunc(wanted, func(r *catalog.Repository) bool { return r.UID == stone.UID })
		if have, ok := known[stone.Key.Name]; ok && have.GetUid() == stone.UID && !isWanted {
			errs = append(errs, s.delete(ctx, stone))
		}
	}
	return errors.Join(errs...)
}

// known lists what gitcache knows, by name.
func (s *Source) known(ctx context.Context) (map[string]*gitcachev1.RepositoryDefinition, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	known := map[string]*gitcachev1.RepositoryDefinition{}
	token := ""
	for {
		res, err := s.p.Client.ListRepositories(ctx, &gitcachev1.ListRepositoriesRequest{Page: &typev1.Page{Size: pageSize, Token: token}})
		if err != nil {
			return nil, fmt.Errorf("list definitions: %w", err)
		}
		for _, definition := range res.GetRepositories() {
			known[definition.GetName()] = definition
		}
		if token = res.GetNextPageToken(); token == "" {
			return known, nil
		}
	}
}

func (s *Source) put(ctx context.Context, repository *catalog.Repository) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := s.p.Client.PutRepository(ctx, &gitcachev1.PutRepositoryRequest{Repository: definitionMessage(repository)})
	if err != nil {
		return fmt.Errorf("put definition of %s: %w", repository.Name, err)
	}
	return nil
}

func (s *Source) delete(ctx context.Context, stone catalog.Tombstone) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := s.p.Client.DeleteRepository(ctx, &gitcachev1.DeleteRepositoryRequest{Name: stone.Key.Name, Version: stone.Revision})
	if err != nil {
		return fmt.Errorf("delete definition of %s: %w", stone.Key.Name, err)
	}
	return nil
}
