// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package submodule

import (
	"context"
	"errors"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

// wait is for one commit of one submodule to arrive in this replica's mirror.
type wait struct {
	keeper     *Keeper
	link       Link
	repository *mirroring.Repository
	refreshed  bool
}

func (w *wait) run(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pace := backoff.Policy{Initial: 100 * time.Millisecond, Max: time.Second}
	if err := w.repository.AwaitLoaded(limited); err != nil {
		return w.late(ctx)
	}
	for attempt := 0; ; attempt++ {
		arrived, err := w.look(limited)
		if arrived || (err != nil && limited.Err() == nil) {
			return err
		}
		if backoff.Wait(limited, pace.Delay(attempt)) != nil {
			return w.late(ctx)
		}
	}
}

// late is the error for the end of the time.
func (w *wait) late(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return w.notReady(w.repository.State().Problem)
}

func (w *wait) notReady(problem *mirror.Problem) error {
	return &NotReadyError{Path: w.link.Path, URL: w.link.shown(), Problem: problem}
}

// look reports whether the commit is here, and does what can be done for it to be.
func (w *wait) look(ctx context.Context) (arrived bool, err error) {
	if arrived, err = w.holds(ctx); arrived || err != nil {
		return arrived, err
	}
	if w.repository.Epoch() == 0 {
		// The owner's mirror is for the same replicas as the root's, sooner or later; now it is
		// needed here.
		if err := w.repository.Borrow(ctx); err != nil && !errors.Is(err, mirror.ErrNoMirror) {
			return false, nil // the owner may change or come back within the time that is left
		}
		if arrived, err = w.holds(ctx); arrived || err != nil {
			return arrived, err
		}
	}
	if _, err := w.repository.Content(); err != nil {
		if problem := w.repository.State().Problem; problem != nil {
			return false, w.notReady(problem)
		}
		return false, nil
	}
	return false, w.refresh(ctx)
}

// holds reports whether this replica's mirror has the commit.
func (w *wait) holds(ctx context.Context) (bool, error) {
	r, err := w.keeper.params.Mirrors.Open(ctx, w.repository.Definition().UID)
	if errors.Is(err, mirror.ErrNoMirror) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = r.Close() }()
	_, err = r.Commit(ctx, w.link.Commit)
	if errors.Is(err, content.ErrCommitNotFound) {
		return false, nil
	}
	return err == nil, err
}

// refresh has the upstream asked once for what the mirror lacks. A commit that it lacks after that
// does not exist there.
func (w *wait) refresh(ctx context.Context) error {
	if w.refreshed {
		const said = "No branch or tag of its repository leads to that commit. Push it there, or change the link."
		key := commitKey{w.repository.Definition().UID, w.link.Commit}
		w.keeper.failed.Add(key, failure{said, time.Now().Add(failureMemory)})
		return w.link.unavailable(said)
	}
	problem, err := w.keeper.params.Set.Refresh(ctx, w.repository.Definition().Name, true)
	switch {
	case err != nil:
		return nil //nolint:nilerr // no owner at the moment, for instance; there may be one within the time that is left
	case problem != nil:
		return w.notReady(problem)
	}
	w.refreshed = true
	return nil
}
