// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet is the live view of the fleet in memory: the catalog, what sources resolve to, what
// agents reported, and the plans that follow.
//
// # Promises
//
// Every read is answered from memory. It costs no SQL and continues while the store, or the way to
// Git, is gone. A cluster's plan is computed at the first question, and kept while questions
// continue. A plan in memory is revised after every change that touches it, and its watchers are
// notified if its version changed. Plans follow edits whole: no plan has one half of an edit,
// except that derived services which are many or costly follow it (see Deriver). An agent that
// comes from another replica is never given a plan that is older than the one it has (see
// [View.CatchUp]).
//
// # Parts
//
// View joins parts that have one subject and one lock each:
//
//	Catalog       the copy of the catalog, as of one revision; access decisions
//	sourceStates  what sources hold; the mirrors that they are read from
//	planBook      the plans in memory, and the versions before them
//	reports       the latest report of each service
//	grants        bundles that clusters may read beside their plans
//	Presence      when agents were heard from
//	lookups       the reads of the store on behalf of one cluster
//	Tallies       the healthy services of each cluster
//	BundleBooks   the bytes of each project's bundles
//	admissions    what services have instead of their specs and of what their sources hold
//	nextEnds      what ends by itself: pauses and ignore rules
//	Deriver       derives after the batch of changes that needs it
//	Records       the descriptions of objects, which join all of them
//
// A status joins several parts and may be a moment older in one of them. Its watchers are notified
// after all of them have changed, so they end with the latest.
//
// # Kinds
//
// newShelves defines the effects of a kind's objects, tellers their descriptions, and edits and
// announced their meaning for rollouts. A new kind needs a line in each of them, which tests ask
// for.
//
// # Writers and locks
//
// The view follows the store's log of changes. An edit goes to the store first and comes back
// through Refresh, on the replica that made it and on all others. Two kinds of writers change the
// catalog or sources, and then revise plans: Refresh for edits and reports, Resolved for content, and
// the Deriver. Ends revises them when time alone changes what a spec means. They take turns, under View.writing, from the first change to the last plan. A plan in
// memory is therefore of one state, although it is computed from two parts.
//
// Locks are taken in this order:
//
//	View.refreshing → View.writing → clusterTally → planBook → Catalog → sourceStates
//
// The other parts' locks are taken last, one at a time. The store is called under refreshing alone.
// Watchers are notified under writing, which no reader takes.
//
// # What it does not do
//
// It decides nothing about edits, writes nothing but presence to the store, and does not ask for
// the content of sources: packages catalog, sqlstore and resolve do.
package fleet

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/waiting"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
	"github.com/leatdev/leat/services/distributor/internal/spine/lookup"
)

const (
	// lookPause is the least time between two reads of the store on behalf of callers, however many
	// there are.
	lookPause = 5 * time.Millisecond
	// presenceInterval is how often presence is stored, for other replicas and for after a restart.
	presenceInterval = time.Minute
	// planKept is how long a plan stays in memory after a cluster without a stream asked for it.
	planKept = time.Hour
)

// Store is the view's port to the catalog's store.
type Store interface {
	catalog.Log
	catalog.Snapshots
	PresenceStore
}

// Params are a View's collaborators, all required, and its settings.
type Params struct {
	Store  Store
	Logger *slog.Logger
	Tracer trace.Tracer
	// Plans is notified of clusters whose plan changed or ended, by name.
	Plans *fanout.Hub[string]
	// Objects is notified of objects that changed, themselves or in their status.
	Objects *fanout.Hub[catalog.Key]
	// Settings are the settings of the agents of all clusters. A cluster's own come first.
	Settings syncpolicy.AgentSettings
	// PollInterval is how often the store is asked for changes made by other replicas.
	PollInterval time.Duration
	// ReadReportsAfter is how long ReadReports leaves the processors to the agents that come back after a start.
	ReadReportsAfter time.Duration
	// Changed receives how long each change of the catalog or of content took until the plans in memory
	// had followed, its turn included. Nil is not called.
	Changed func(took time.Duration)
	// Waiting has the changes that wait for their turn. Nil: nobody measures them.
	Waiting *waiting.Line
	// AtOnce bounds the derivation of services with an edit.
	AtOnce AtOnce
	// HubVersion is compared with those of agents. Empty: agents of each version go with it.
	HubVersion string
}

// View is the live view. It is safe for concurrent use. Returned values are shared and must not be
// changed.
type View struct {
	Catalog     *Catalog
	Presence    *Presence
	Tallies     *Tallies
	BundleBooks *BundleBooks
	Records     *Records

	p       Params
	sources *sourceStates
	plans   *planBook
	reports *reports
	// reading is the unread rest of reports.
	reading *reading
	grants  *grants
	lookups *lookups
	// refreshes are the runs of Refresh that callers share; see Look.
	refreshes *lookup.Flight
	// admitted is the content of services instead of their sources' content.
	admitted *admissions
	// ends are those of pauses and ignore rules.
	ends *nextEnds
	// newSources receives a value when a source may be wanted that was not wanted before.
	newSources wake.Signal
	// deriving wakes the deriver.
	deriving wake.Signal

	// refreshing serialises Refresh, so that changes are taken in their order. Rollouts.Still holds it, too.
	refreshing sync.Mutex
	// sharing is for what Refresh reads from the store. refreshing guards it.
	sharing *sharing
	// writing serialises changes of the catalog and of sources, with the revision of plans that
	// follows each.
	writing turn
}

// Accounts returns the view of people.
func (v *View) Accounts() Accounts { return Accounts{v.Catalog} }

// Load fills the view with everything that is in the store, except for some reports of derived services
// where there are very many: see ReadReports. It is called once, before anything is served.
func (v *View) Load(ctx context.Context) error {
	if err := v.Presence.clock.set(ctx, v.p.Store); err != nil {
		return err
	}
	resolutions, err := v.p.Store.LoadSnapshots(ctx)
	if err != nil {
		return err
	}
	for source, resolution := range resolutions {
		v.sources.put(source, resolution)
	}
	if err := v.Refresh(ctx); err != nil {
		return err
	}
	v.Catalog.mu.Lock()
	settleFirstLocked(v.Catalog.contents.derived)
	v.Catalog.mu.Unlock()
	v.reading.begin(ctx)
	return nil
}

// Refresh applies the changes in the store since the last time.
func (v *View) Refresh(ctx context.Context) error {
	v.refreshing.Lock()
	defer v.refreshing.Unlock()
	since := v.Catalog.Revision()
	changes, err := v.p.Store.Changes(ctx, since)
	if err != nil {
		return err
	}
	isReloaded := changes.Revision < since
	if isReloaded {
		// The store was restored from a backup: everything starts again from what it holds.
		if changes, err = v.p.Store.Changes(ctx, 0); err != nil {
			return err
		}
		reports, err := v.reading.all(ctx, changes.Clusters)
		if err != nil {
			return err
		}
		changes.Reports = append(changes.Reports, reports...)
		v.p.Logger.WarnContext(ctx, "catalog went back to an older revision; reloaded", slog.Int64("revision", changes.Revision))
		changes.Deleted = append(changes.Deleted, v.Catalog.tombstones()...)
		changes.Variants = append(endedVariants(v.Catalog), changes.Variants...)
	} else if changes.Revision == since {
		return nil
	}
	v.applyLocked(ctx, changes, since == 0, isReloaded)
	return nil
}

// applyLocked applies a batch of changes to all parts, revises the plans that it touches, and
// notifies watchers. The batch is the view's own. isFirst is true if the view was empty before it, and
// isReloaded if the store was restored. The caller holds refreshing.
func (v *View) applyLocked(ctx context.Context, changes catalog.Changes, isFirst, isReloaded bool) {
	for i, service := range changes.Services {
		changes.Services[i] = v.sharing.service(service)
	}
	derived, limits := newBatch(v.Catalog, &changes), v.p.AtOnce
	if isReloaded {
		// Agents have what was derived, so all of it is seen together.
		limits = everything()
	}
	derived.decide(ctx, limits)
	defer v.deriving.Set()
	defer v.writing.take()()
	// The content of a repository that is replaced goes first, so that no plan of a service that
	// reads the new repository is computed from it.
	forgotten := map[catalog.Source]*catalog.Snapshot{}
	for _, stone := range changes.Deleted {
		if stone.Key.Kind == catalog.KindRepository && stone.UID == v.Catalog.RepositoryUID(stone.Key.Name) {
			maps.Copy(forgotten, v.sources.forget(stone.Key.Name))
		}
	}
	for _, repository := range changes.Repositories {
		if uid := v.Catalog.RepositoryUID(repository.Name); uid != "" && uid != repository.UID {
			maps.Copy(forgotten, v.sources.forget(repository.Name))
		}
	}
	set := v.Catalog.merge(changes, derived, isFirst)
	if !isFirst { // the first batch holds every service itself
		spread(v.Catalog, set)
	}
	for _, service := range v.Catalog.Readers(slices.Collect(maps.Keys(forgotten))...) {
		set.addService(service)
	}
	for source, snapshot := range forgotten {
		v.BundleBooks.account(set, objectname.Project(source.Repository), snapshot)
	}
	v.BundleBooks.accountWanted(set, isFirst)
	v.plans.forget(set.endedClusters)
	v.lookups.forget(set.endedClusters)
	v.Presence.forgetAgents(set.endedClusters)
	v.reports.forget(set.endedServices)
	for _, report := range changes.Reports {
		takeReport(ctx, v, report, set)
	}
	v.admit(set, changes, isReloaded)
	v.grants.add(changes.Grants)
	v.revise(ctx, set)
	if len(changes.Repositories) > 0 {
		v.newSources.Set()
	}
}

// revise brings plans in line with a change of the catalog, and notifies the watchers of what it touches. The
// caller holds writing.
func (v *View) revise(ctx context.Context, set *changeSet) {
	v.ends.note(catalog.Now(), set)
	v.publish(set, v.plans.revise(ctx, set, nil))
	if namesNewSource(set, v.Catalog) {
		v.newSources.Set()
	}
}

// namesNewSource reports whether a service, which a person wrote or which was derived, names a source
// now that no service named before the change.
func namesNewSource(set *changeSet, c *Catalog) bool {
	for source, wasWanted := range set.sources {
		if !wasWanted && isNamed(c, source) {
			return true
		}
	}
	return false
}

// admit takes over what services are planned with.
func (v *View) admit(set *changeSet, changes catalog.Changes, isAll bool) {
	names := v.admitted.put(changes.Admissions, isAll)
	names = append(names, v.admitted.putVariants(changes.Variants)...)
	for _, stone := range changes.Deleted {
		if stone.Key.Kind == catalog.KindGlobalService {
			v.admitted.endVariants(stone.UID)
		}
	}
	for _, name := range names {
		if service, ok := v.Catalog.Service(name); ok {
			set.addService(service)
		}
	}
	if len(changes.Admissions) > 0 {
		v.Catalog.contents.derived.variants.lacking.Set() // a service may be held at a variant that is not stored
	}
}

// publish notifies the watchers of what a change touched, and of plans that have another version
// now.
func (v *View) publish(set *changeSet, changedPlans []string) {
	v.Tallies.invalidate(set)
	v.p.Plans.Publish(changedPlans...)
	for cluster := range set.clusters {
		v.p.Plans.Publish(cluster)
	}
	for key := range set.objects {
		v.p.Objects.Publish(key)
	}
}

// MonitorCatalog follows changes made by other replicas until ctx is done. It logs when the store
// goes away and when it comes back. It ends with an error that matches catalog.ErrReplaced if the
// store was restored from a backup: the memory then belongs to another catalog.
func (v *View) MonitorCatalog(ctx context.Context) error {
	isAway := false
	for {
		if err := backoff.Wait(ctx, backoff.Jitter(v.p.PollInterval, 0.25)); err != nil {
			return err
		}
		err := v.Refresh(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, catalog.ErrReplaced):
			return err
		case err != nil && !isAway:
			v.p.Logger.WarnContext(ctx, "catalog store does not answer; serving from memory", slog.Any("error", err))
		case err == nil && isAway:
			v.p.Logger.InfoContext(ctx, "catalog store answers again")
		}
		isAway = err != nil
	}
}

// MonitorPresence follows the store's clock, stores when agents were heard from, notifies the watchers of
// agents that have gone silent, and drops the plans of long silent ones, until ctx is done.
func (v *View) MonitorPresence(ctx context.Context) error {
	for {
		if err := backoff.Wait(ctx, backoff.Jitter(presenceInterval, 0.25)); err != nil {
			return err
		}
		v.DropPlans(catalog.Now().Add(-planKept))
		v.logUnstored(ctx, errors.Join(v.Presence.clock.set(ctx, v.p.Store), v.Presence.StorePresence(ctx)))
	}
}

// MonitorArrivals stores that agents have come, a second after they came, until ctx is done. Agents
// that come together, as after a restart of the hub, are stored together.
func (v *View) MonitorArrivals(ctx context.Context) error {
	for {
		select {
		case <-v.Presence.arrived:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := backoff.Wait(ctx, arrivalPause); err != nil {
			return err
		}
		v.logUnstored(ctx, v.Presence.storeArrivals(ctx))
	}
}

func (v *View) logUnstored(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		v.p.Logger.WarnContext(ctx, "presence of agents not stored", slog.Any("error", err))
	}
}

// DropPlans drops the plans of clusters that have no stream and did not ask since then from memory.
func (v *View) DropPlans(since time.Time) { v.plans.drop(since, v.Presence.isStreaming) }

// NewSources receives a value when there may be sources to resolve that were not wanted before.
func (v *View) NewSources() <-chan struct{} { return v.newSources }
