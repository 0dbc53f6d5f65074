// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/lookup"
	"github.com/leatdev/leat/services/distributor/internal/plan"
)

const (
	// lookPause is the least time between two looks into the store on behalf of callers, however many there are.
	lookPause = 5 * time.Millisecond
	// learnPause is the same for one cluster's sources.
	learnPause = 50 * time.Millisecond
	// missPause is how often a cluster may have the store asked about digests that its plans do not name.
	missPause = time.Second
	// pastVersions is how many versions of a cluster's plan are recognised as older ones.
	pastVersions = 32
)

// Look refreshes the view because the caller misses something: when it returns, the view knows whatever was in the store
// when it was called. Should the store not answer in time, the view stays as it is.
func (v *View) Look(ctx context.Context) { _ = v.look(ctx) }

func (v *View) look(ctx context.Context) error {
	ctx, cancel := lookup.Bounded(ctx, lookup.Timeout)
	defer cancel()
	return v.looks.Do(ctx)
}

// CatchUp keeps an agent from going back in time: when it returns nil, the view is not behind what the agent saw before,
// on whatever replica that was. The agent has the known version of its plan; "" is none.
//
// A version that this replica never had may be newer than all it knows, so it looks into the store for edits and for
// what sources hold, where each replica writes what it learns before it tells an agent (see resolve). Versions that it
// had, which is nearly always so, cost nothing. The error matches catalog.ErrUnavailable: the store does not answer, and
// to give the agent the plan there is might take services away from it.
func (v *View) CatchUp(ctx context.Context, cluster, known string) error {
	if known == "" {
		// It has nothing to lose, so it gets what there is.
		v.Look(ctx)
		return nil
	}
	if v.recognises(cluster, known) {
		return nil
	}
	if err := v.learnTogether(ctx, cluster); err != nil {
		return fmt.Errorf("catch up with version %s: %w", known, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.clusters[cluster] != nil {
		v.lineage(cluster).add(v.hash(known)) // whatever it is, this replica is past it now
	}
	return nil
}

// recognises tells whether the version is the current one of the cluster's plan, or was.
func (v *View) recognises(cluster, version string) bool {
	if current, ok := v.Plan(cluster); ok && current.Version == version {
		return true
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	l, ok := v.lineages[cluster]
	return ok && l.has(v.hash(version))
}

// learnTogether is learn, shared by all who ask for the cluster: an agent that makes versions up asks in vain.
func (v *View) learnTogether(ctx context.Context, cluster string) error {
	learning := v.learning(cluster)
	if learning == nil {
		return nil // there is nothing to catch up with
	}
	ctx, cancel := lookup.Bounded(ctx, 2*lookup.Timeout)
	defer cancel()
	return learning.Do(ctx)
}

func (v *View) learning(cluster string) *lookup.Flight {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.clusters[cluster] == nil {
		return nil
	}
	l := v.lineage(cluster)
	if l.learning == nil {
		l.learning = lookup.NewFlight(learnPause, func(ctx context.Context) error { return v.learn(ctx, cluster) })
	}
	return l.learning
}

// learn takes over what other replicas wrote that concerns the cluster.
func (v *View) learn(ctx context.Context, cluster string) error {
	if err := v.look(ctx); err != nil {
		return err
	}
	ctx, cancel := lookup.Bounded(ctx, lookup.Timeout)
	defer cancel()
	stored, err := v.p.Store.SnapshotsOf(ctx, v.sourcesFor(cluster))
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	for source, resolution := range stored {
		v.Stored(ctx, source, resolution)
	}
	return nil
}

// sourcesFor returns the sources of a cluster's services, in their normal spelling.
func (v *View) sourcesFor(cluster string) []catalog.Source {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var sources []catalog.Source
	for _, name := range v.index.Services(cluster) {
		for _, source := range v.index.Service(name).Spec.Sources {
			sources = append(sources, source.Normal())
		}
	}
	return sources
}

// Stored takes over what the store holds of a source, where that is newer than what the view knows. A problem stays.
func (v *View) Stored(ctx context.Context, source catalog.Source, stored catalog.Resolution) {
	known := v.Resolution(source)
	if known.Snapshot == nil || stored.FreshAt.After(known.FreshAt) {
		stored.Problem = known.Problem
		v.Resolved(ctx, source, stored, "")
	}
}

// outdated tells whether an answer is of an earlier state of the upstream than the one that is known. The same content is
// never outdated, and answers without a time count by the order in which they come.
func outdated(known, next catalog.Resolution) bool {
	return known.Snapshot != nil && next.Snapshot != nil && !next.FreshAt.IsZero() &&
		next.FreshAt.Before(known.FreshAt) && !sameSnapshot(known.Snapshot, next.Snapshot)
}

// Downloads is the view for those who hand out bundles. It is safe for concurrent use.
type Downloads struct {
	*View
}

// Bundle is [View.Bundle]; before it says no it looks into the store, at most once a second for a cluster: another
// replica may have told the agent of the bundle just now. It waits for that in the same way whatever the digest is.
func (d Downloads) Bundle(cluster string, of digest.Digest) (plan.Bundle, bool) {
	bundle, ok := d.View.Bundle(cluster, of)
	if ok || !d.mayLearn(cluster) {
		return bundle, ok
	}
	_ = d.learnTogether(context.Background(), cluster) // without the store, what is known counts
	return d.View.Bundle(cluster, of)
}

// mayLearn tells whether a miss of the cluster may have the store asked.
func (v *View) mayLearn(cluster string) bool {
	at := now()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.clusters[cluster] == nil {
		return false
	}
	l := v.lineage(cluster)
	if at.Before(l.nextMiss) {
		return false
	}
	l.nextMiss = at.Add(missPause)
	return true
}

// lineage recognises the latest versions that a cluster's plan had before the current one, by their hashes. It outlives the
// plan in memory.
type lineage struct {
	seen [pastVersions]uint64
	next int
	// learning looks for what concerns the cluster; nil before the first time.
	learning *lookup.Flight
	// nextMiss is when a missing digest may have the store asked again.
	nextMiss time.Time
}

// lineage returns a cluster's. The caller holds the lock, and the cluster exists.
func (v *View) lineage(cluster string) *lineage {
	l, ok := v.lineages[cluster]
	if !ok {
		l = &lineage{}
		v.lineages[cluster] = l
	}
	return l
}

func (v *View) hash(version string) uint64 { return maphash.String(v.seed, version) }

func (l *lineage) add(hash uint64) {
	l.seen[l.next%pastVersions] = hash
	l.next++
}

func (l *lineage) has(hash uint64) bool {
	return slices.Contains(l.seen[:min(l.next, pastVersions)], hash)
}
