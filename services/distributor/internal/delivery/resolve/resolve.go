// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package resolve keeps every source that a service names resolved: to a commit and a digest, or to
// the last good ones with the problem beside them.
//
// A source is asked for when it becomes wanted, when an event reports a change of its repository,
// when a person asks for a sync, again after a failure, and from time to time in case an event was
// missed. One source is asked for by one goroutine at a time, so an older answer never replaces a
// newer one.
package resolve

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Upstream knows what sources hold.
type Upstream interface {
	// Resolve returns what the source holds now. Its error is a *Failure, or the context's.
	Resolve(ctx context.Context, source catalog.Source) (Answer, error)
}

// Answer is the content of a source.
type Answer struct {
	Snapshot catalog.Snapshot
	// FreshAt is when the mirror that answered was last known to equal the upstream; zero where
	// that is not known.
	FreshAt time.Time
}

// Failure is why a source could not be resolved.
type Failure struct {
	Reason  reason.Reason
	Message string
	// RetryAfter is when to ask again, as the other side wishes; zero leaves it to the caller.
	RetryAfter time.Duration
}

// Error implements error.
func (f *Failure) Error() string { return f.Reason.String() + ": " + f.Message }

// Board is where resolutions are put up; fleet.View is the one.
type Board interface {
	Sources() []catalog.Source
	SourcesOf(repository string) []catalog.Source
	Wanted(source catalog.Source) bool
	Resolution(source catalog.Source) catalog.Resolution
	RepositoryUID(name string) string
	// Revision is the revision of the catalog by which sources are wanted.
	Revision() int64
	// Stored takes over the stored content of a source if that is newer than the known one.
	Stored(ctx context.Context, source catalog.Source, stored catalog.Resolution)
	// Resolved takes over an answer, unless one of a later state of the upstream came first.
	Resolved(ctx context.Context, source catalog.Source, next catalog.Resolution, trigger *catalog.Trigger)
	// Reserve makes room for an answer in the quotas of the source's project, until release is called
	// after Resolved. If there is none, release is nil, and refusal is a sentence about it.
	Reserve(source catalog.Source, next *catalog.Snapshot) (release func(), refusal string)
	SetMirror(repository string, mirror *catalog.Mirror)
	NewSources() <-chan struct{}
}

// Params are a Loop's collaborators and settings, all required.
type Params struct {
	Board    Board
	Upstream Upstream
	Store    catalog.Snapshots
	Logger   *slog.Logger
	// Workers is how many sources are asked for at once.
	Workers int
	// Timeout bounds one question.
	Timeout time.Duration
	// ResyncEvery is how often every source is asked for, give or take a quarter.
	ResyncEvery time.Duration
}

// Loop keeps sources resolved while Run runs. It is safe for concurrent use.
type Loop struct {
	p     Params
	queue *queue

	mu sync.Mutex
	// failures counts failed questions in a row.
	failures map[catalog.Source]int
	// saved is the store's content.
	saved map[catalog.Source]catalog.Snapshot
	// asked are the sources that were asked for since the loop began.
	asked map[catalog.Source]struct{}
	// doubted is since when only answers came that are older than the known one.
	doubted map[catalog.Source]time.Time
	// told is how fresh the mirror of a repository is, by the last event that told of it.
	told map[string]time.Time
	// storing is false while the store does not answer.
	storing atomic.Bool
}

// quotaRetry is after how long content for which a project has no room is asked for again. Until then
// people see why it is not delivered; a commit, or a sync that they ask for, has it asked for at once.
const quotaRetry = 15 * time.Second

// New returns a Loop.
func New(p Params) *Loop {
	l := &Loop{
		p: p, queue: newQueue(), failures: map[catalog.Source]int{}, saved: map[catalog.Source]catalog.Snapshot{},
		asked: map[catalog.Source]struct{}{}, doubted: map[catalog.Source]time.Time{},
		told: map[string]time.Time{},
	}
	l.storing.Store(true)
	return l
}

// Event means that something about a repository changed.
type Event struct {
	Repository string
	// ChangedRefs are the full names of references that moved, appeared or vanished.
	ChangedRefs []string
	// AllRefs means that any reference may have changed.
	AllRefs bool
	// Mirror is the state after the change; nil when the repository is gone.
	Mirror *catalog.Mirror
	// Trigger is what brought the change; nil: not known.
	Trigger *catalog.Trigger
}

// Observe takes an event, and asks for the sources that it may concern. It does not wait for the
// answers.
func (l *Loop) Observe(event Event) {
	l.hear(event)
	l.p.Board.SetMirror(event.Repository, event.Mirror)
	for _, source := range l.p.Board.SourcesOf(event.Repository) {
		if event.concerns(source) || l.unsettled(source) {
			l.queue.add(source, time.Now(), event.Trigger)
		}
	}
}

// concerns reports whether the source may hold something else after the event.
func (e Event) concerns(source catalog.Source) bool {
	return e.AllRefs || slices.ContainsFunc(e.ChangedRefs, source.DependsOn)
}

func (l *Loop) unsettled(source catalog.Source) bool {
	r := l.p.Board.Resolution(source)
	return r.Snapshot == nil || r.Problem != nil
}

// Sync asks for the sources now and waits for the answers, good or bad. The error is the context's.
func (l *Loop) Sync(ctx context.Context, sources []catalog.Source) error {
	answers := make([]<-chan struct{}, len(sources))
	for i, source := range sources {
		answers[i] = l.queue.addAndWait(source.Normal(), time.Now())
	}
	for _, answer := range answers {
		select {
		case <-answer:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Lateness returns for how long the source has been due that is due longest and that no worker has begun, or zero if
// none is.
func (l *Loop) Lateness() time.Duration { return l.queue.lateness(time.Now()) }

// Run keeps sources resolved until ctx is done.
func (l *Loop) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.dispatch(ctx) })
	g.Go(func() error { return l.monitorWanted(ctx) })
	g.Go(func() error { return l.monitorAge(ctx) })
	return g.Wait()
}

// dispatch hands due sources to workers, and waits for those when it ends.
func (l *Loop) dispatch(ctx context.Context) error {
	var workers errgroup.Group
	workers.SetLimit(l.p.Workers)
	for {
		item, err := l.queue.next(ctx)
		if err != nil {
			_ = workers.Wait() // workers return no errors
			return err
		}
		workers.Go(func() error {
			l.settle(ctx, item)
			return nil
		})
	}
}

// monitorWanted asks for sources that become wanted and that were never asked for. Known content of
// one was stored before the loop began, and may be old.
func (l *Loop) monitorWanted(ctx context.Context) error {
	for {
		select {
		case <-l.p.Board.NewSources():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for _, source := range l.p.Board.Sources() {
			if l.p.Board.Resolution(source).Snapshot == nil && !l.hasFailed(source) || !l.wasAsked(source) {
				l.queue.add(source, time.Now(), nil)
			}
		}
	}
}

func (l *Loop) hasFailed(source catalog.Source) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures[source] > 0
}

func (l *Loop) wasAsked(source catalog.Source) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.asked[source]
	return ok
}

// monitorAge asks for every source from time to time: at once when it begins, because what was
// stored may be old, and later spread over a quarter of the interval, because every replica does
// so.
func (l *Loop) monitorAge(ctx context.Context) error {
	for spread := time.Duration(1); ; spread = max(l.p.ResyncEvery/4, 1) {
		for _, source := range l.p.Board.Sources() {
			l.queue.add(source, time.Now().Add(rand.N(spread)), nil)
		}
		if err := backoff.Wait(ctx, backoff.Jitter(l.p.ResyncEvery*7/8, 1.0/7)); err != nil {
			return err
		}
		if err := l.p.Store.PruneSnapshots(ctx, l.p.Board.Revision(), l.p.Board.Wanted); err != nil && ctx.Err() == nil {
			l.p.Logger.WarnContext(ctx, "snapshots of unwanted sources not pruned", slog.Any("error", err))
		}
	}
}

// settle asks for one source, puts the answer up, and makes sure that a failure is tried again.
func (l *Loop) settle(ctx context.Context, item *item) {
	defer l.queue.done(item)
	source := item.source
	if !l.p.Board.Wanted(source) {
		l.forget(source)
		return
	}
	ctx = item.trigger.Follow(ctx)
	l.mu.Lock()
	l.asked[source] = struct{}{}
	l.mu.Unlock()
	answer, err := l.ask(ctx, source)
	if err == nil {
		answer, err = l.weigh(ctx, source, answer)
	}
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		release, refusal := l.p.Board.Reserve(source, &answer.Snapshot)
		if refusal != "" {
			err = &Failure{Reason: reason.ProjectQuotaExceeded, Message: refusal, RetryAfter: quotaRetry}
		} else {
			defer release()
		}
	}
	next := outcome(l.p.Board.Resolution(source), answer, err)
	if err == nil {
		if err = l.putUp(ctx, source, next, item.trigger); err == nil && l.lags(source, answer) {
			err = errLagging
		}
	} else {
		l.p.Board.Resolved(ctx, source, next, item.trigger)
		l.learn(ctx, source)
	}
	if err != nil {
		l.retry(source, err)
		return
	}
	l.mu.Lock()
	delete(l.failures, source)
	l.mu.Unlock()
}

func (l *Loop) ask(ctx context.Context, source catalog.Source) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, l.p.Timeout)
	defer cancel()
	answer, err := l.p.Upstream.Resolve(ctx, source)
	if err == nil {
		return answer, nil
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		return answer, f
	}
	trace.SpanFromContext(ctx).RecordError(err)
	return answer, &Failure{Reason: reason.DeadlineExceeded, Message: "the repository cache did not answer in time; Leat retries by itself"}
}

// outcome joins an answer with the known content: the last good snapshot stays, and a failure that
// only demands another try changes no known content.
func outcome(last catalog.Resolution, answer Answer, err error) catalog.Resolution {
	failure, failed := errors.AsType[*Failure](err)
	if !failed {
		return catalog.Resolution{Snapshot: &answer.Snapshot, ResolvedAt: catalog.Now(), FreshAt: answer.FreshAt}
	}
	if catalog.Passes(failure.Reason) && (last.Snapshot != nil || last.Problem != nil && !catalog.Passes(last.Problem.Reason)) {
		return last
	}
	next := last
	next.Problem = &catalog.Problem{Reason: failure.Reason, Message: failure.Message, Since: catalog.Now()}
	if last.Problem != nil && last.Problem.Reason == failure.Reason {
		next.Problem.Since = last.Problem.Since
	}
	return next
}

func (l *Loop) save(ctx context.Context, source catalog.Source, next catalog.Resolution) error {
	l.mu.Lock()
	saved := l.saved[source]
	l.mu.Unlock()
	if saved == *next.Snapshot {
		return nil
	}
	uid := l.p.Board.RepositoryUID(source.Repository)
	if uid == "" {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	err := l.p.Store.SaveSnapshot(limited, uid, source, next)
	l.storing.Store(err == nil)
	if err != nil {
		l.p.Logger.WarnContext(ctx, "snapshot not stored", slog.String("repository", source.Repository), slog.Any("error", err))
		return err
	}
	l.mu.Lock()
	l.saved[source] = *next.Snapshot
	l.mu.Unlock()
	return nil
}

func (l *Loop) retry(source catalog.Source, err error) {
	l.mu.Lock()
	attempt := l.failures[source]
	l.failures[source] = attempt + 1
	l.mu.Unlock()
	delay := backoff.Policy{Initial: time.Second, Max: 30 * time.Second}.Delay(attempt)
	if f, ok := errors.AsType[*Failure](err); ok {
		delay = max(delay, f.RetryAfter)
	}
	l.queue.add(source, time.Now().Add(delay), nil)
}

func (l *Loop) forget(source catalog.Source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.failures, source)
	delete(l.saved, source)
	delete(l.asked, source)
	delete(l.doubted, source)
}
