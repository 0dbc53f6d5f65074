// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
)

// Observations is the view for what notifies other systems of clusters, repositories and services. It is
// safe for concurrent use.
type Observations struct{ View *View }

// Notifiers implements notify.Fleet.
func (o Observations) Notifiers() []*catalog.Notifier {
	c := o.View.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.contents.notifiers.all()
}

// Keys implements notify.Fleet.
func (o Observations) Keys(kinds ...catalog.Kind) []catalog.Key {
	var keys []catalog.Key
	for _, kind := range kinds {
		names := namesOf(o.View.Catalog, kind)
		keys = slices.Grow(keys, len(names))
		for _, name := range names {
			keys = append(keys, catalog.Key{Kind: kind, Name: name})
		}
	}
	return keys
}

// namesOf returns the names of all objects of a kind, sorted.
func namesOf(c *Catalog, kind catalog.Kind) []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.contents.byKind[kind].sorted().all()
}

// seenOf returns the view of every object.
func seenOf(object catalog.Object) notify.Seen {
	key, meta := object.Key(), object.Meta()
	project, name := objectname.Split(key.Name)
	return notify.Seen{
		ID: string(key.Kind) + "/" + meta.UID, UID: meta.UID, Kind: key.Kind, Name: name, Project: project, CreatedAt: meta.CreatedAt,
		Event: notice.Event{Project: project},
	}
}

func (o Observations) service(service *catalog.Service) notify.Seen {
	seen, status := seenOf(service), o.View.Records.serviceStatus(service)
	seen.Class = classOf(status.Phase)
	seen.Event.Service, seen.Event.Cluster = objectname.Display(service.LocalName()), objectname.Display(service.Spec.Cluster)
	if cluster, ok := o.View.Catalog.Cluster(service.Spec.Cluster); ok {
		seen.Labels, seen.LabelProject = cluster.Labels, objectname.Project(cluster.Name)
	}
	if p := status.Problem; p != nil {
		seen.Event.Reason, seen.Event.Message = p.Reason.String(), p.Message
	}
	if r := status.Report; r != nil && status.Synced {
		seen.Applied = strings.Join(r.AppliedDigests, " ") + " " + strings.Join(r.AppliedCommits, " ")
	}
	for i, source := range status.Sources {
		if source.Snapshot == nil {
			continue
		}
		commit := notify.Commit{Repository: service.Spec.Sources[i].Repository, ID: source.Snapshot.Commit}
		if commit.ID != "" && !slices.Contains(seen.Commits, commit) {
			seen.Commits = append(seen.Commits, commit)
		}
		if i == 0 {
			seen.Event.Repository = objectname.Display(commit.Repository)
			seen.Event.Commit, seen.Event.Version = commit.ID, source.Snapshot.Version
		}
	}
	return seen
}

// classOf returns the class of a phase.
func classOf(phase catalog.Phase) notify.Class {
	switch phase {
	case catalog.PhaseFailed:
		return notify.Failed
	case catalog.PhaseDegraded:
		return notify.Degraded
	case catalog.PhaseHealthy:
		return notify.Healthy
	case catalog.PhasePending, catalog.PhaseSyncing, catalog.PhaseProgressing:
		return notify.Pending
	case catalog.PhasePaused:
		return notify.Paused
	case catalog.PhaseUnknown:
	}
	return notify.Unknown
}

func (o Observations) cluster(cluster *catalog.Cluster) notify.Seen {
	seen := seenOf(cluster)
	seen.Labels, seen.LabelProject = cluster.Labels, seen.Project
	seen.Event.Cluster = objectname.Display(cluster.Name)
	isConnected, at := o.View.Presence.presenceOf(cluster)
	switch {
	case isConnected:
		seen.Class = notify.Connected
	case !at.IsZero(): // one that was never there cannot be missed
		seen.Class = notify.Disconnected
	}
	return seen
}

func (o Observations) repository(repository *catalog.Repository) notify.Seen {
	seen := seenOf(repository)
	seen.Event.Repository = objectname.Display(repository.Name)
	for _, service := range o.View.Catalog.Readers(o.View.Catalog.SourcesOf(repository.Name)...) {
		if project := objectname.Project(service.Name); project != seen.Project && !slices.Contains(seen.Readers, project) {
			seen.Readers = append(seen.Readers, project)
		}
	}
	mirror, ok := o.View.sources.mirror(repository.Name)
	switch p := mirror.Problem; {
	case !ok:
	case p != nil && !catalog.Passes(p.Reason):
		seen.Class, seen.Event.Reason, seen.Event.Message = notify.Failing, p.Reason.String(), p.Message
	case p == nil && !mirror.FreshAt.IsZero():
		seen.Class = notify.Fetched
	}
	return seen
}

// Tally implements notify.Fleet.
func (o Observations) Tally(n *catalog.Notifier, commit notify.Commit) (tally notify.Tally, url string) {
	if repository, ok := named(o.View.Catalog, o.View.Catalog.contents.repositories, commit.Repository); ok {
		url = repository.Spec.URL
	}
	counted := map[string]bool{}
	for _, service := range o.View.Catalog.Readers(o.View.Catalog.SourcesOf(commit.Repository)...) {
		if counted[service.Name] {
			continue
		}
		counted[service.Name] = true
		seen := o.service(service)
		if !slices.Contains(seen.Commits, commit) || !notify.Covers(n, seen) {
			continue
		}
		switch seen.Class { //nolint:exhaustive // the others are not about services, or have no meaning
		case notify.Healthy:
			tally.Healthy++
		case notify.Failed, notify.Degraded:
			tally.Failed++
		case notify.Pending:
			tally.Pending++
		}
	}
	return tally, url
}
