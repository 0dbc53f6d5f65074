// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/distributor/internal/delivery/derive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// putAtOnce is how many services the deriver changes under one lock, at most.
	putAtOnce = 200
	// lockedAtOnce is how long it holds the lock, if that is enough for one service.
	lockedAtOnce = time.Millisecond
	// idle is how long the deriver sleeps while it has nothing to do and is not woken.
	idle = time.Hour
)

// retryAfter returns after how long a global service that took too long is tried again. A change of the
// global service itself ends the wait.
func retryAfter(attempts int) time.Duration {
	return backoff.Policy{Initial: time.Minute, Max: time.Hour}.Delay(attempts)
}

// AwaitSettled blocks until the view shows at least a waiting service wherever one may be derived
// of what it was loaded with, and all reports of derived services are read. Code that draws
// conclusions from the absence of a service or of a report begins after that. The error is the
// cause of ctx.
func AwaitSettled(ctx context.Context, v *View) error {
	for _, settled := range []<-chan struct{}{v.Catalog.contents.derived.settled, v.reading.done} {
		select {
		case <-settled:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// IsUndecided reports whether services may be missing from what the view holds of a cluster, because their
// derivation has not had its first turn, or reports from which its plan follows. The agent of the cluster is
// given no plan then. After a time in which it was true, the watchers of the plan are notified.
func IsUndecided(v *View, cluster string) bool {
	found, ok := v.Catalog.Cluster(cluster)
	return ok && (Globals{v.Catalog}.isAwaited(found) || v.reading.holdsBack(found))
}

// Unfinished counts the global services that are to be derived, and the ones that took too long and
// wait for another try.
func Unfinished(c *Catalog) (pending, late int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.contents.derived.jobs), len(c.contents.derived.late)
}

// Deriver derives services that were too many to derive with a batch of changes. One goroutine runs
// it. Projects take turns, and so do the global services of each. Unsettled ones come first, so
// that none which costs much holds back the plans of others.
type Deriver struct {
	View *View
	// Slice is how long a global service may be derived while others wait.
	Slice time.Duration
	// PerCluster is added to a first turn for each cluster. Usual global services are done with it, and
	// one that costs much holds plans back for little longer than a usual one for as many clusters.
	PerCluster time.Duration
	// Timeout bounds the time that one global service takes for all its clusters, without its waits
	// for turns. A derivation that exceeds it leaves everything as it is, and is tried again later.
	Timeout time.Duration
}

// NewDeriver returns the Deriver of a hub.
func NewDeriver(v *View) Deriver {
	return Deriver{View: v, Slice: 50 * time.Millisecond, PerCluster: 200 * time.Microsecond, Timeout: 10 * time.Second}
}

// maxHelpers bounds the workers that help with first turns.
const maxHelpers = 3

// Run derives until ctx is done, each global service on one core. The first turns of what the view was loaded with,
// for which all agents wait, take the other cores, too.
func (d Deriver) Run(ctx context.Context) error {
	var helpers sync.WaitGroup
	defer helpers.Wait()
	// A distributor on few processors has more threads than these, which are for calls.
	for range min(runtime.NumCPU()-1, runtime.GOMAXPROCS(0)-1, maxHelpers) {
		helpers.Go(func() { d.help(ctx) })
	}
	seen := factsBook{}
	for {
		j, wait := d.next(time.Now(), isAny)
		if j == nil {
			clear(seen)
			if err := d.View.deriving.Await(ctx, wait); err != nil {
				return err
			}
			continue
		}
		d.take(ctx, j, seen)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// help takes first turns while any are left.
func (d Deriver) help(ctx context.Context) {
	seen := factsBook{}
	for ctx.Err() == nil {
		j, _ := d.next(time.Now(), isFirstTurn)
		if j == nil {
			return
		}
		d.take(ctx, j, seen)
	}
}

func isAny(*job) bool { return true }

func isFirstTurn(j *job) bool { return j.isFirst && !j.isSettled }

// take is the turn of a job, which no other worker takes meanwhile. Clusters as expressions see them are one worker's.
func (d Deriver) take(ctx context.Context, j *job, seen factsBook) {
	j.pass.on.seen = seen
	d.turn(ctx, j)
	c := d.View.Catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	j.isTaken = false
	d.View.deriving.Set() // a worker may have found nothing but this job
}

// next returns the job whose turn it is among the jobs that a worker may take, with a pass begun.
// Without a job it returns how long to wait for one.
func (d Deriver) next(at time.Time, may func(*job) bool) (*job, time.Duration) {
	c := d.View.Catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	wait := idle
	for path, late := range c.contents.derived.late {
		global, ok := c.contents.globals.objects[path]
		switch {
		case !ok || c.contents.derived.jobs[path] != nil:
		case at.Before(late.retryAt):
			wait = min(wait, late.retryAt.Sub(at))
		default:
			c.contents.derived.jobs[path] = &job{global: global, isFirst: late.isFirst, isSettled: true, scope: scope{isAll: true}}
		}
	}
	j := nextLocked(c.contents.derived, may)
	if j != nil && j.pass == nil {
		j.pass = &pass{
			scope: j.scope, clusters: amongLocked(&c.contents.shelves, j.scope),
			on: basis{
				departures: maps.Clone(c.contents.derived.departures),
				projects:   maps.Clone(c.contents.projects.objects),
				sets:       maps.Clone(c.contents.sets.objects), version: c.contents.derived.version,
			},
		}
		j.scope = scope{}
	}
	if j != nil {
		j.pass.isSettled = j.isSettled
	}
	return j, wait
}

// turn continues the pass of a job for a slice of time, or to its end.
func (d Deriver) turn(ctx context.Context, j *job) {
	p := j.pass
	compiled := d.compiled(ctx, j)
	if compiled == nil {
		return
	}
	begun := time.Now()
	slice, end := d.Slice, d.Timeout-p.spent
	if !p.isSettled {
		// A first turn is interrupted even within one cluster, because agents wait for it.
		slice += d.PerCluster * time.Duration(len(p.clusters))
		end = min(end, slice)
	}
	bounded, cancel := context.WithTimeout(ctx, end)
	defer cancel()
	for i := 0; len(p.verdicts) < len(p.clusters) && bounded.Err() == nil && (i == 0 || time.Since(begun) < slice); i++ {
		v := p.on.verdict(bounded, compiled, p.clusters[len(p.verdicts)])
		if bounded.Err() != nil {
			break // the evaluation may have ended early
		}
		p.verdicts = append(p.verdicts, v)
	}
	p.spent += time.Since(begun)
	switch {
	case ctx.Err() != nil:
	case len(p.verdicts) == len(p.clusters):
		d.finish(ctx, j)
	case p.spent >= d.Timeout:
		d.giveUp(ctx, j)
	case !p.isSettled:
		d.settle(ctx, j)
	}
}

// compiled returns the global service of a job ready to derive from. Nil: it does not compile, because a later
// version of the hub wrote it, which is the end of the pass.
func (d Deriver) compiled(ctx context.Context, j *job) *derive.Global {
	c, path := d.View.Catalog, j.global.Name
	c.mu.RLock()
	known := c.contents.derived.globals[path]
	c.mu.RUnlock()
	if known != nil && known.Spec() == j.global {
		return known
	}
	made, err := derive.Compile(j.global)
	if err != nil {
		problem := &catalog.Problem{Reason: reason.DerivationFailed, Message: fmt.Sprintf(
			"global service %s: %s; this version of the hub cannot derive its services, which stay as they are", objectname.Display(path), err)}
		if d.wait(ctx, j, problem) {
			d.end(ctx, j, func() {})
		}
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.contents.derived.jobs[path] != j {
		return nil // there is another global service by now
	}
	c.contents.derived.globals[path] = made
	return made
}

// finish applies the verdicts of a pass. Verdicts of clusters that have changed since are left to
// the next.
func (d Deriver) finish(ctx context.Context, j *job) {
	c, p := d.View.Catalog, j.pass
	isCurrent := d.put(ctx, j, len(p.verdicts), func(i int, s *changeSet) {
		if v := p.verdicts[i]; !j.has(v.cluster.Name) {
			putVerdictLocked(c.contents, j.global, v, j.isFirst, s)
		}
	})
	if !isCurrent {
		return
	}
	d.end(ctx, j, func() {
		if p.isAll {
			delete(c.contents.derived.late, j.global.Name)
		}
	})
}

// giveUp ends a pass that has taken too long. The clusters' services stay.
func (d Deriver) giveUp(ctx context.Context, j *job) {
	c, p := d.View.Catalog, j.pass
	problem := &catalog.Problem{Reason: reason.DerivationTooExpensive, Message: fmt.Sprintf(
		"deriving the services of global service %s takes more than %s of a core, after %d of %d clusters; they stay as they are; select by labels, or write simpler expressions",
		objectname.Display(j.global.Name), d.Timeout, len(p.verdicts), len(p.clusters))}
	if !d.wait(ctx, j, problem) {
		return
	}
	d.View.p.Logger.WarnContext(ctx, "global service takes too long to derive", slog.String("global_service", j.global.Name))
	d.end(ctx, j, func() {
		next := &lateness{problem: problem, isFirst: j.isFirst}
		if last := c.contents.derived.late[j.global.Name]; last != nil {
			next.attempts, next.isFirst = last.attempts+1, next.isFirst || last.isFirst
		}
		next.retryAt = time.Now().Add(retryAfter(next.attempts))
		c.contents.derived.late[j.global.Name] = next
	})
}

// settle ends a first turn that was not enough.
func (d Deriver) settle(ctx context.Context, j *job) {
	if d.wait(ctx, j, pending()) {
		d.settled(j, func() {})
	}
}

// wait gives the clusters of a pass that have nothing a service that waits.
func (d Deriver) wait(ctx context.Context, j *job, problem *catalog.Problem) (isCurrent bool) {
	p := j.pass
	return d.put(ctx, j, len(p.clusters), func(i int, s *changeSet) {
		putWaitingLocked(d.View.Catalog.contents, j.global, p.clusters[i], problem, s)
	})
}

// end ends a pass, and the job unless it has clusters for another one.
func (d Deriver) end(ctx context.Context, j *job, note func()) {
	c := d.View.Catalog
	d.settled(j, func() {
		note()
		if j.pass = nil; j.isEmpty() {
			delete(c.contents.derived.jobs, j.global.Name)
		}
	})
	defer d.View.writing.take()()
	s := newChangeSet()
	s.addObject(j.global.Key()) // its status has changed
	d.View.revise(ctx, s)
}

// settled marks a job as settled, and notifies the watchers of plans that were held back for it.
func (d Deriver) settled(j *job, note func()) {
	c, p := d.View.Catalog, j.pass
	c.mu.Lock()
	if c.contents.derived.jobs[j.global.Name] == j {
		j.isSettled = !j.isAll
		note()
		settleFirstLocked(c.contents.derived)
	}
	c.mu.Unlock()
	if p.isSettled {
		return
	}
	names := make([]string, len(p.clusters))
	for i, cluster := range p.clusters {
		names[i] = cluster.Name
	}
	d.View.p.Plans.Publish(names...)
}

// put calls do for each number below a count, under the catalog's lock, and then revises the plans that this
// touches: some numbers at a time, so that readers wait for no more than those. Between two times it rests as
// long as it held the lock: a call takes the lock many times, and must not find it taken each time. Agents wait for
// a first turn, in which it does not rest. put returns false as soon as the job has ended, or has to begin again for
// all clusters.
func (d Deriver) put(ctx context.Context, j *job, count int, do func(i int, s *changeSet)) (isCurrent bool) {
	for from := 0; from < count; {
		done, held := d.putSome(ctx, j, from, min(from+putAtOnce, count), do)
		if done == 0 {
			d.View.Catalog.mu.Lock()
			defer d.View.Catalog.mu.Unlock()
			j.pass = nil
			return false
		}
		if from += done; from < count && j.pass.isSettled {
			_ = backoff.Wait(ctx, held) // once ctx has ended there is no rest, and Run returns after this turn
		}
	}
	return true
}

// putSome is one time of put. It returns for how many numbers it called do, 0 if the job is not current, and how long it
// held the lock.
func (d Deriver) putSome(ctx context.Context, j *job, from, to int, do func(i int, s *changeSet)) (done int, held time.Duration) {
	v := d.View
	defer v.writing.take()()
	s := newChangeSet()
	v.Catalog.mu.Lock()
	begun := time.Now()
	isCurrent := v.Catalog.contents.derived.jobs[j.global.Name] == j && !j.isAll
	for isCurrent && from+done < to && (done == 0 || time.Since(begun) < lockedAtOnce) {
		do(from+done, s)
		done++
	}
	held = time.Since(begun)
	v.Catalog.mu.Unlock()
	v.BundleBooks.accountWanted(s, j.isFirst)
	v.reports.forget(s.endedServices)
	v.revise(ctx, s)
	return done, held
}
