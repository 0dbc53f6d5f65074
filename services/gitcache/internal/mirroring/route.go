// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	// maxOwners is how many owners are asked for one call before it is answered without one.
	maxOwners = 3
	// ownerCheck is the time between two checks of whether the replica that is asked still owns the
	// repository.
	ownerCheck = time.Second
	// holderTimeout is how long a replica that may hold a mirror is given: it may be frozen, or
	// have to build a bundle.
	holderTimeout = 10 * time.Second
)

// Call is a call about a repository. Any replica may receive it; [Route] decides which one answers.
type Call[T any] struct {
	// Via is how the call came here. A forwarded call is not forwarded again.
	Via mirror.Via
	// Here answers it on this replica.
	Here func(ctx context.Context) (T, error)
	// There has another replica answer it. It calls answering when the answer begins to arrive, if
	// it arrives in pieces: an answer that has begun is waited for, even if another replica owns
	// the repository now.
	There func(ctx context.Context, replica string, via mirror.Via, answering func()) (T, error)
	// Classify returns what an error of Here or There, or nil, means for the choice of the next
	// replica.
	Classify func(err error) Reply
}

// Reply is the meaning of a replica's error for the question which replica to ask next.
type Reply int

// The replies.
const (
	Answered Reply = iota // an answer, be it an error
	NoAnswer              // the replica cannot be reached, or does not own the repository any more
	Cold                  // the replica has no mirror of the repository yet
	Absent                // the replica does not have the requested content, and another one may
)

// Route lets the owner of the repository answer a call. It is answered here where this replica is
// the owner, where there is none, and where no owner answers: mirrored content outlives its owner.
// If this replica has no mirror, a replica that has one answers.
//
// The error is mirror.ErrOwnershipLost where another replica takes this one for the owner, and it
// is not.
func Route[T any](ctx context.Context, r *Repository, c Call[T]) (T, error) {
	var none T
	var cold error // of a replica without a mirror; it is more precise than that no replica has one
	for range maxOwners {
		owner, err := r.otherOwner(ctx, c.Via)
		if err != nil {
			return none, err
		}
		if owner == "" {
			break
		}
		answer, err := askOwner(ctx, r, c, owner)
		reply := c.Classify(err)
		if reply == Cold {
			cold = err
			break
		}
		if reply != NoAnswer || ctx.Err() != nil {
			return answer, err
		}
		r.ForgetOwner()
		r.shared.logger(r.status).InfoContext(ctx, "owner does not answer, answering here", slog.Any("error", err))
	}
	_, missing := r.Content()
	if missing == nil || r.Epoch() != 0 {
		answer, err := c.Here(ctx)
		if reply := c.Classify(err); reply != Cold && (reply != Absent || missing == nil) {
			return answer, err
		}
		cold = err
	}
	if c.Via == mirror.ViaCaller {
		for _, holder := range r.Others() {
			answer, err := askHolder(ctx, c, holder)
			if c.Classify(err) == Answered {
				return answer, err
			}
			if ctx.Err() != nil {
				return none, context.Cause(ctx)
			}
		}
	}
	if cold != nil {
		return none, cold
	}
	return c.Here(ctx)
}

// otherOwner returns the replica that is to answer a call as the owner, or "" where this one is to.
// While the owner of the repository is unknown, the mirror of this replica is served.
func (r *Repository) otherOwner(ctx context.Context, via mirror.Via) (string, error) {
	if r.Epoch() != 0 || via == mirror.ViaHolder {
		return "", nil
	}
	if via != mirror.ViaCaller {
		return "", mirror.ErrOwnershipLost
	}
	owner, err := r.Owner(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return "", err
	case owner == r.shared.Self:
		return "", nil
	}
	return owner, nil
}

// askOwner asks a replica for as long as it owns the repository. An owner may take long to answer
// as long as it renews its lease, and one that is frozen cannot.
func askOwner[T any](ctx context.Context, r *Repository, c Call[T], owner string) (T, error) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	watching, moved := context.WithCancel(asking)
	defer moved()
	release := context.AfterFunc(watching, cancel)
	go func() { // ends with watching
		for backoff.Wait(watching, ownerCheck) == nil {
			if now, err := r.Owner(watching); err == nil && now != owner {
				moved()
			}
		}
	}()
	return c.There(asking, owner, mirror.ViaOwner, func() { release(); moved() })
}

// askHolder asks a replica that may hold a mirror, although it does not own the repository.
func askHolder[T any](ctx context.Context, c Call[T], holder string) (T, error) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	patience := time.AfterFunc(holderTimeout, cancel)
	defer patience.Stop()
	return c.There(asking, holder, mirror.ViaHolder, func() { patience.Stop() })
}

// Refresh has the repository of that name fetched by its owner, whichever replica that is, and
// returns the repository's problem after that; nil: none. With wait it waits for a fetch that
// begins after the call. It is a call of this replica's own, whatever call ctx belongs to. The
// error matches mirror.ErrUnknownRepository, or mirror.ErrNotOwner if the repository has no owner
// at the moment.
func (s *Set) Refresh(ctx context.Context, name string, wait bool) (*mirror.Problem, error) {
	r, err := s.Get(name)
	if err != nil {
		return nil, err
	}
	if err := r.AwaitLoaded(ctx); err != nil {
		return nil, err
	}
	return Route(ctx, r, Call[*mirror.Problem]{
		Via: mirror.ViaCaller,
		Here: func(ctx context.Context) (*mirror.Problem, error) {
			state, err := r.Refresh(ctx, wait)
			return state.Problem, err
		},
		There: func(ctx context.Context, replica string, via mirror.Via, _ func()) (*mirror.Problem, error) {
			return s.shared.Replicas.Refresh(ctx, replica, r.Definition(), via, wait)
		},
		Classify: func(err error) Reply {
			switch {
			case errors.Is(err, mirror.ErrNoAnswer):
				return NoAnswer
			case errors.Is(err, mirror.ErrNotOwner), errors.Is(err, mirror.ErrUnknownRepository):
				return Absent
			default:
				return Answered
			}
		},
	})
}
