// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// MaxReads bounds the reads of one back end at once.
	MaxReads = 8
	// ReadsPerSecond bounds how many reads of one back end begin in a second.
	ReadsPerSecond = 20
	// batch is how many paths are read before the store is asked again who reads the back end.
	batch = MaxReads
	// releaseTimeout bounds the last word to the store.
	releaseTimeout = 5 * time.Second
	// ReadTimeout bounds one read, and checkTimeout one check.
	ReadTimeout  = 20 * time.Second
	checkTimeout = 20 * time.Second
	// firstRetry and lastRetry bound the wait after a failure.
	firstRetry, lastRetry = 5 * time.Second, 15 * time.Minute
	// shortestLife is how long any answer holds, regardless of the back end.
	shortestLife = 10 * time.Second
	// longestThrottle bounds the wait that a back end asks for.
	longestThrottle = time.Hour
	// overdueAfter is how many refreshes old an answer is when services show it.
	overdueAfter = 3
	pruneEvery   = time.Hour
	// maxFailure bounds the text of what was wrong.
	maxFailure = 300
)

// Catalog lists the back ends, without credentials.
type Catalog interface {
	ConfigBackends() []*catalog.ConfigBackend
}

// Params are a Reader's collaborators, all required, and its settings.
type Params struct {
	Catalog Catalog
	Entries Entries
	// Open returns the adapter of a back end, which has its credential. It does not dial yet.
	Open func(*catalog.ConfigBackend) (Backend, error)
	// Changed is called when services obtain another configuration.
	Changed func(context.Context)
	Logger  *slog.Logger
	Meter   metric.Meter
	// Replica is the name of this process among the reading ones.
	Replica string
	// Poll is how often the Reader looks whether a path is due.
	Poll time.Duration
}

// Reader reads due entries.
type Reader struct {
	p     Params
	reads metric.Int64Counter

	mu sync.Mutex
	// workers are by the uid of their back end.
	workers map[string]*worker
}

// NewReader returns a Reader; Run reads.
func NewReader(p Params) (*Reader, error) {
	reads, err := p.Meter.Int64Counter("leat.distributor.config.reads", metric.WithUnit("{read}"),
		metric.WithDescription("Reads of configuration back ends by kind and result: unchanged, changed, refused, throttled or failed."))
	return &Reader{p: p, reads: reads, workers: map[string]*worker{}}, err
}

// Run reads until ctx is done.
func (r *Reader) Run(ctx context.Context) error {
	passes, ctx := errgroup.WithContext(ctx)
	pruned := time.Now()
	for {
		if err := backoff.Wait(ctx, backoff.Jitter(r.p.Poll, 0.25)); err != nil {
			err = cmp.Or(passes.Wait(), err)
			r.end(ctx)
			return err
		}
		for _, w := range r.idle(r.p.Catalog.ConfigBackends()) {
			passes.Go(func() error {
				w.pass(ctx)
				return nil
			})
		}
		if now := time.Now(); now.Sub(pruned) > pruneEvery {
			pruned = now
			if err := r.p.Entries.Prune(ctx, now); err != nil && ctx.Err() == nil {
				r.p.Logger.WarnContext(ctx, "unused entries of configuration back ends not removed", slog.Any("error", err))
			}
		}
	}
}

// idle returns the workers of back ends that have none at work, and reserves them. It ends workers
// of back ends that are gone.
func (r *Reader) idle(backends []*catalog.ConfigBackend) []*worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	isThere := map[string]bool{}
	var idle []*worker
	for _, b := range backends {
		isThere[b.UID] = true
		w := r.workers[b.UID]
		if w == nil {
			w = &worker{reader: r, limiter: rate.NewLimiter(ReadsPerSecond, ReadsPerSecond)}
			r.workers[b.UID] = w
		}
		if w.isBusy {
			continue
		}
		w.isBusy, w.wanted = true, b
		idle = append(idle, w)
	}
	for uid, w := range r.workers {
		if !isThere[uid] && !w.isBusy {
			w.close()
			delete(r.workers, uid)
		}
	}
	return idle
}

// end closes all back ends, and lets other replicas read them.
func (r *Reader) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := r.p.Entries.Release(ctx, r.p.Replica); err != nil {
		r.p.Logger.WarnContext(ctx, "configuration back ends stay with this replica for a minute", slog.Any("error", err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.workers {
		w.close()
	}
	clear(r.workers)
}

// worker reads one back end. Its fields belong to the goroutine that has reserved it; the reader's
// lock guards isBusy.
type worker struct {
	reader  *Reader
	limiter *rate.Limiter
	isBusy  bool
	// wanted is the back end as the catalog has it.
	wanted *catalog.ConfigBackend
	// client reads the back end of its generation; nil: none works yet.
	client     Backend
	generation int64
	// failed is the generation whose client did not work, and why; retry is when it is tried again.
	failed   int64
	why      error
	retry    time.Time
	attempts int
	isAway   bool
}

func (w *worker) close() {
	if w.client != nil {
		_ = w.client.Close() // nothing is lost: a session ends on its own
		w.client = nil
	}
}

// pass reads the due entries of one back end. It ends without an error: failures are stored, or
// tried again with the next pass.
func (w *worker) pass(ctx context.Context) {
	defer func() {
		w.reader.mu.Lock()
		w.isBusy = false
		w.reader.mu.Unlock()
	}()
	if w.client != nil && w.generation != w.wanted.Generation && !time.Now().Before(w.retry) {
		w.renew(ctx)
	}
	for w.step(ctx) {
		if ctx.Err() != nil {
			return
		}
	}
}

// step reads some due entries. It reports whether there may be more.
func (w *worker) step(ctx context.Context) bool {
	p, backend := w.reader.p, w.wanted
	tasks, err := p.Entries.Due(ctx, backend.UID, p.Replica, time.Now(), batch)
	if err != nil {
		w.report(ctx, err)
		return false
	}
	if len(tasks) == 0 {
		return false
	}
	if w.client == nil && (w.failed != backend.Generation || !time.Now().Before(w.retry)) {
		w.renew(ctx)
	}
	var reads errgroup.Group
	reads.SetLimit(MaxReads)
	var errs []error
	var mu sync.Mutex
	isChanged := false
	for _, task := range tasks {
		if w.limiter.Wait(ctx) != nil {
			break
		}
		reads.Go(func() error {
			changed, err := w.read(ctx, task)
			mu.Lock()
			defer mu.Unlock()
			isChanged = isChanged || changed
			errs = append(errs, err)
			return nil
		})
	}
	_ = reads.Wait() // no read returns an error
	if isChanged {
		p.Changed(ctx)
	}
	err = errors.Join(errs...)
	w.report(ctx, err)
	return err == nil
}

// report logs when the store goes away and comes back.
func (w *worker) report(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	name := slog.String("backend", w.wanted.Name)
	if err != nil && !w.isAway {
		w.reader.p.Logger.WarnContext(ctx, "entries of configuration back end cannot be stored", name, slog.Any("error", err))
	} else if err == nil && w.isAway {
		w.reader.p.Logger.InfoContext(ctx, "entries of configuration back end are stored again", name)
	}
	w.isAway = err != nil
}

// renew replaces the client by one for the back end as it is wanted, if that one works. Otherwise
// the former one stays.
func (w *worker) renew(ctx context.Context) {
	p, generation := w.reader.p, w.wanted.Generation
	next, err := w.open(ctx)
	if err != nil {
		if w.failed != generation {
			w.attempts = 0
			p.Logger.WarnContext(ctx, "configuration back end cannot be read with its present settings",
				slog.String("backend", w.wanted.Name), slog.String("error", failureOf(err)))
		}
		w.failed, w.why, w.attempts = generation, err, w.attempts+1
		w.retry = time.Now().Add(delay(w.attempts))
		return
	}
	hadOther := w.client != nil
	w.close()
	w.client, w.generation, w.failed, w.why, w.attempts, w.retry = next, generation, 0, nil, 0, time.Time{}
	if hadOther {
		// The entries of the former settings may be different now. The limits of reads spread this.
		if _, err := p.Entries.Hasten(ctx, w.wanted.UID, "", time.Now()); err != nil {
			w.report(ctx, err)
		}
	}
}

func (w *worker) open(ctx context.Context) (Backend, error) {
	backend, err := w.reader.p.Entries.Backend(ctx, w.wanted.UID)
	if err != nil {
		return nil, err
	}
	next, err := w.reader.p.Open(backend)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err := next.Check(ctx); err != nil {
		_ = next.Close() // it never worked
		return nil, err
	}
	return next, nil
}

// read reads one path and stores what came of it. The error is the store's.
func (w *worker) read(ctx context.Context, task Task) (isChanged bool, err error) {
	p, backend := w.reader.p, w.wanted
	at := time.Now()
	entry, failure := w.ask(ctx, task.Path)
	if ctx.Err() != nil {
		return false, nil //nolint:nilerr // the hub ends; the path stays due
	}
	result := "unchanged"
	if failure == nil {
		isChanged, err = p.Entries.Save(ctx, backend.UID, task.Path, entry, at, at.Add(lifeOf(entry, backend)))
		if isChanged {
			result = "changed"
		}
	} else {
		f := failedOf(failure, task, backend, time.Now())
		result = resultOf(failure)
		isChanged, err = p.Entries.Fail(ctx, backend.UID, task.Path, f, at)
	}
	w.reader.reads.Add(ctx, 1, metric.WithAttributes(attribute.String("kind", backend.Spec.KindName()), attribute.String("result", result)))
	return isChanged, err
}

func (w *worker) ask(ctx context.Context, path string) (Entry, error) {
	if w.client == nil {
		return Entry{}, fmt.Errorf("the back end cannot be read with its present settings: %w", w.why)
	}
	ctx, cancel := context.WithTimeout(ctx, ReadTimeout)
	defer cancel()
	entry, err := w.client.Read(ctx, path)
	if err == nil {
		err = entry.Check()
	}
	return entry, err
}

// lifeOf returns after how long an entry is read again: at four fifths of its life, give or take a
// tenth.
func lifeOf(entry Entry, backend *catalog.ConfigBackend) time.Duration {
	life := backend.Spec.RefreshEvery()
	if entry.TTL > 0 {
		life = max(shortestLife, min(life, entry.TTL))
	}
	return backoff.Jitter(life*4/5, 0.1)
}

// failedOf returns the stored form of a failure.
func failedOf(err error, task Task, backend *catalog.ConfigBackend, now time.Time) Failed {
	f := Failed{Message: failureOf(err)}
	f.IsRefused, f.IsAbsent = answerIn(err)
	f.IsOverdue = !f.IsRefused && !task.ReadAt.IsZero() && now.Sub(task.ReadAt) > overdueAfter*backend.Spec.RefreshEvery()
	wait := delay(task.Attempts + 1)
	if throttled, ok := errors.AsType[*ThrottledError](err); ok {
		wait = max(wait, min(throttled.After, longestThrottle))
	}
	f.Next = now.Add(wait)
	return f
}

// delay returns how long to wait after a number of failures in a row: ever longer, with jitter.
func delay(attempts int) time.Duration {
	most := firstRetry << min(attempts-1, 12)
	most = min(most, lastRetry)
	return most/2 + rand.N(most/2+1)
}

func resultOf(err error) string {
	if isRefused, _ := answerIn(err); isRefused {
		return "refused"
	}
	if _, ok := errors.AsType[*ThrottledError](err); ok {
		return "throttled"
	}
	return "failed"
}

// failureOf returns the text of an error for people, as one short line.
func failureOf(err error) string {
	text := []rune(err.Error())
	for i, r := range text {
		if r < ' ' || r == 0x7f {
			text[i] = ' '
		}
	}
	if len(text) > maxFailure {
		return string(text[:maxFailure]) + "…"
	}
	return string(text)
}
