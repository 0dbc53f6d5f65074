// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet is the live view of the fleet: the catalog, what sources resolve to, what agents reported, and the
// plans that follow, all in memory. Plans are made when they are asked for, and kept while somebody goes on asking.
//
// Every read is answered from here, so it costs no SQL and goes on when the store, or the way to Git, is gone. The view
// follows the store's log of changes; it is never written to from two sides: an edit goes to the store first, and comes
// back through Refresh, on the replica that made it and on all the others.
package fleet

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fanout"
	"github.com/leatdev/leat/services/distributor/internal/lookup"
	"github.com/leatdev/leat/services/distributor/internal/plan"
)

// Store is what the view needs of the catalog's store.
type Store interface {
	catalog.Log
	catalog.Snapshots
	// SavePresence is catalog.Reports'.
	SavePresence(ctx context.Context, presence []catalog.Presence) error
}

// Params are a View's collaborators, all required, and its settings.
type Params struct {
	Store  Store
	Logger *slog.Logger
	Tracer trace.Tracer
	// Plans is told the names of clusters whose plan changed or ended.
	Plans *fanout.Hub[string]
	// Objects is told the keys of objects that changed, themselves or in their status.
	Objects *fanout.Hub[catalog.Key]
	// Settings are what the agents of all clusters are told, whose own come first.
	Settings syncpolicy.AgentSettings
	// PollInterval is how often the store is asked for changes made by other replicas.
	PollInterval time.Duration
}

// View is the live view. It is safe for concurrent use. What it returns is shared and must not be changed.
type View struct {
	p Params

	// refreshing serialises Refresh, so that changes are taken in their order.
	refreshing sync.Mutex

	mu       sync.RWMutex
	revision int64
	// stale is set while the store does not answer; it is for readiness and logs only.
	stale        bool
	clusters     map[string]*catalog.Cluster
	repositories map[string]*catalog.Repository
	mirrors      map[string]catalog.Mirror
	people       *people
	index        *plan.Index
	resolutions  map[catalog.Source]catalog.Resolution
	// reports are by the service's uid.
	reports map[string]catalog.StoredReport
	// plans are those of clusters that asked lately, by the cluster's name.
	plans map[string]*plans
	pool  *plan.Pool
	// sharing is for what is read from the store.
	sharing *sharing
	// holders are the sources whose snapshot has the digest.
	holders map[digest.Digest]map[catalog.Source]struct{}
	sorted  map[catalog.Kind][]string
	// grants are what clusters may read beside their plans.
	grants map[grantKey]catalog.Grant
	// looks are refreshes on behalf of callers; see Look.
	looks *lookup.Flight
	// lineages tell what became of clusters' plans; seed hashes their versions.
	lineages map[string]*lineage
	seed     maphash.Seed
	// presence has a lock of its own: every call of an agent writes to it.
	presence *attendance
	// newSources receives a value when a source may be wanted that was not before.
	newSources chan struct{}
}

// New returns an empty View; Load fills it.
func New(p Params) *View {
	v := &View{
		p:            p,
		clusters:     map[string]*catalog.Cluster{},
		repositories: map[string]*catalog.Repository{},
		mirrors:      map[string]catalog.Mirror{},
		people:       newPeople(),
		index:        plan.NewIndex(),
		resolutions:  map[catalog.Source]catalog.Resolution{},
		reports:      map[string]catalog.StoredReport{},
		plans:        map[string]*plans{},
		pool:         plan.NewPool(),
		sharing:      newSharing(),
		holders:      map[digest.Digest]map[catalog.Source]struct{}{},
		presence:     newAttendance(),
		sorted:       map[catalog.Kind][]string{},
		newSources:   make(chan struct{}, 1),
		lineages:     map[string]*lineage{},
		grants:       map[grantKey]catalog.Grant{},
		seed:         maphash.MakeSeed(),
	}
	v.looks = lookup.NewFlight(lookPause, v.Refresh)
	return v
}

// Load fills the view with all there is in the store. It is called once, before anything is served.
func (v *View) Load(ctx context.Context) error {
	resolutions, err := v.p.Store.LoadSnapshots(ctx)
	if err != nil {
		return err
	}
	v.mu.Lock()
	for source, resolution := range resolutions {
		v.hold(source, resolution)
	}
	v.mu.Unlock()
	return v.Refresh(ctx)
}

// Refresh takes over what changed in the store since the last time.
func (v *View) Refresh(ctx context.Context) error {
	v.refreshing.Lock()
	defer v.refreshing.Unlock()
	since := v.Revision()
	changes, err := v.p.Store.Changes(ctx, since)
	if err != nil {
		return err
	}
	if changes.Revision < since {
		return v.reload(ctx)
	}
	if changes.Revision > since {
		v.take(ctx, changes)
	}
	return nil
}

// reload starts anew from a store whose revision went back, as after a restore from a backup.
func (v *View) reload(ctx context.Context) error {
	changes, err := v.p.Store.Changes(ctx, 0)
	if err != nil {
		return err
	}
	v.p.Logger.WarnContext(ctx, "catalog went back to an older revision; reloaded", slog.Int64("revision", changes.Revision))
	changes.Deleted = append(changes.Deleted, v.everything()...)
	v.take(ctx, changes)
	return nil
}

// everything returns a tombstone for each object of the view.
func (v *View) everything() []catalog.Tombstone {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var all []catalog.Tombstone
	bury := func(object catalog.Object) {
		all = append(all, catalog.Tombstone{Key: object.Key(), UID: object.Meta().UID})
	}
	for _, cluster := range v.clusters {
		bury(cluster)
	}
	for _, repository := range v.repositories {
		bury(repository)
	}
	for _, name := range v.names(catalog.KindService) {
		bury(v.index.Service(name))
	}
	v.people.everyone(bury)
	for id := range v.people.tokens {
		all = append(all, catalog.Tombstone{Key: catalog.Key{Kind: catalog.KindToken, Name: id}})
	}
	return all
}

// Revision is that of the catalog which the view shows.
func (v *View) Revision() int64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.revision
}

// MonitorCatalog follows changes made by other replicas until ctx is done.
func (v *View) MonitorCatalog(ctx context.Context) error {
	for {
		if err := backoff.Wait(ctx, backoff.Jitter(v.p.PollInterval, 0.25)); err != nil {
			return err
		}
		err := v.Refresh(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		v.noteStore(ctx, err)
	}
}

// noteStore logs when the store goes away and when it comes back.
func (v *View) noteStore(ctx context.Context, err error) {
	v.mu.Lock()
	was := v.stale
	v.stale = err != nil
	v.mu.Unlock()
	switch {
	case err != nil && !was:
		v.p.Logger.WarnContext(ctx, "catalog store does not answer; serving from memory", slog.Any("error", err))
	case err == nil && was:
		v.p.Logger.InfoContext(ctx, "catalog store answers again")
	}
}

// NewSources receives a value when there may be sources to resolve that were not wanted before.
func (v *View) NewSources() <-chan struct{} { return v.newSources }

func (v *View) announceSources() {
	select {
	case v.newSources <- struct{}{}:
	default:
	}
}
