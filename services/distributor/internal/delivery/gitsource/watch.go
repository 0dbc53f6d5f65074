// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"context"
	"errors"
	"log/slog"
	"time"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// silence is how long a stream may be silent before it counts as dead; it is three heartbeats.
const silence = time.Minute

var (
	errSilent  = errors.New("no heartbeat")
	errRefused = errors.New("the token of a call beside it was refused")
)

// MonitorRepositories hands every event to observe until ctx is done. It resumes where it was after
// an interruption, at another replica if there is one; where that is not possible, every repository is
// reported as changed.
func (s *Source) MonitorRepositories(ctx context.Context, observe func(resolve.Event)) error {
	w := &watch{source: s, observe: observe, epochs: map[string]uint64{}}
	wasRefused := false
	for failures := 0; ; failures++ {
		received, err := w.stream(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if rpcerr.IsRefusedToken(err) || errors.Is(err, errRefused) {
			s.refusal.begin()
		} else {
			s.refusal.end()
		}
		if s.IsRefused() && !wasRefused {
			s.p.Logger.WarnContext(ctx, "gitcache refuses the tokens of this distributor, so its agents are asked to connect to another one", slog.Any("error", err))
		}
		wasRefused = s.IsRefused()
		if received {
			failures = 0
		}
		if rpcerr.ReasonOf(err) == errorsv1.Reason_REASON_RESUME_EXPIRED {
			w.token = ""
		} else {
			s.p.Logger.Log(ctx, levelOf(failures), "stream of repository events ended; reconnecting", slog.Any("error", err))
		}
		if err := backoff.Wait(ctx, backoff.Policy{Max: 10 * time.Second}.Delay(failures)); err != nil {
			return err
		}
		s.p.Leave()
	}
}

// levelOf tells the first failure of a row to everybody, and the others to who asks for them.
func levelOf(failures int) slog.Level {
	if failures == 0 {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// watch is the state that outlives one stream.
type watch struct {
	source  *Source
	observe func(resolve.Event)
	// token resumes after the last event that was observed.
	token string
	// epochs are the highest seen: events of an owner after it lost its lease are ignored.
	epochs map[string]uint64
}

// stream follows one stream to its end, and reports whether anything came. It ends the stream when a call beside it is
// refused: gitcache looks at the token of a stream once, and a clock can go wrong later.
func (w *watch) stream(ctx context.Context) (received bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watchdog.Stop()
	stream, err := w.source.p.Client.WatchRepositories(ctx, &gitcachev1.WatchRepositoriesRequest{ResumeToken: w.token})
	if err != nil {
		return false, err
	}
	resumed := w.token != ""
	for stream.Receive() {
		watchdog.Reset(silence)
		if !received {
			received = true
			w.source.refusal.end()
			go w.source.endIfRefused(ctx, cancel)
		}
		msg := stream.Msg()
		w.take(msg.GetEvent(), resumed)
		resumed = resumed || msg.GetSynced()
		if msg.GetResumeToken() != "" {
			w.token = msg.GetResumeToken()
		}
	}
	err = errors.Join(stream.Err(), stream.Close())
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) || errors.Is(cause, errRefused) {
		err = cause
	}
	return received, err
}

// endIfRefused ends a stream when a call beside it is refused from now on.
func (s *Source) endIfRefused(ctx context.Context, end context.CancelCauseFunc) {
	select {
	case <-s.refused: // before
	default:
	}
	select {
	case <-s.refused:
		end(errRefused)
	case <-ctx.Done():
	}
}

// take observes one event. Until the stream is live, a state may hide changes that were not
// announced.
func (w *watch) take(m *gitcachev1.RepositoryEvent, live bool) {
	if m == nil || m.GetEpoch() < w.epochs[m.GetRepository()] {
		return
	}
	event := resolve.Event{
		Repository:  m.GetRepository(),
		ChangedRefs: m.GetChangedRefs(),
		AllRefs:     m.GetAllRefs() || !live,
		Trigger:     triggerOf(m),
	}
	if m.GetDeleted() {
		delete(w.epochs, m.GetRepository())
	} else {
		w.epochs[m.GetRepository()] = m.GetEpoch()
		event.Mirror = mirrorOf(m.GetState())
	}
	w.observe(event)
}

// triggerOf returns what brought the change of an event, or nil if it does not say.
func triggerOf(m *gitcachev1.RepositoryEvent) *catalog.Trigger {
	trigger := &catalog.Trigger{Traceparent: m.GetTraceparent()}
	if m.GetFetchDuration() != nil && m.GetTime() != nil {
		trigger.Fetch = m.GetFetchDuration().AsDuration()
		trigger.FetchBegan = m.GetTime().AsTime().Add(-trigger.Fetch)
	}
	if *trigger == (catalog.Trigger{}) {
		return nil
	}
	return trigger
}
