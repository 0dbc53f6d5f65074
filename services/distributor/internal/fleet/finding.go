// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"

	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// Finding is the view for what finds objects among many. It is safe for concurrent use.
type Finding struct{ View *View }

// Keys implements find.Fleet.
func (f Finding) Keys() []catalog.Key { return f.View.Catalog.Keys("", nil) }

// Watch implements find.Fleet.
func (f Finding) Watch() *fanout.Watcher[catalog.Key] { return f.View.p.Objects.WatchAll() }

// Candidates returns the names of services of a cluster, or a project, or both empty, that a scope can
// contain, and perhaps others, sorted. Nil: that is nearly all of them.
func (f Finding) Candidates(cluster, project string, scope *authz.Scope) []string {
	c := f.View.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	from := candidatesLocked(c.contents, Query{Kind: catalog.KindService, Cluster: cluster, Project: project, Within: scope})
	if from.isAll {
		return nil
	}
	return slices.AppendSeq([]string{}, from.seq(""))
}

func rowOfService(r *Records, service *catalog.Service) *find.Row {
	status := r.serviceStatus(service)
	row := &find.Row{
		Object: service, Phase: string(status.Phase), Problem: status.Problem, Sources: status.Sources, Synced: status.Synced,
		// A report with its times would be a copy for each row.
		Report: r.reports.timeless(service), Durations: find.DurationsOf(status.Report),
	}
	if status.Hold != nil && status.Hold.Admission != nil {
		row.Pin = status.Hold.Pin
	}
	switch {
	case status.Problem != nil && !status.Problem.Since.IsZero():
		row.Since = status.Problem.Since
	case status.Report != nil && status.Report.Phase == status.Phase:
		row.Since = status.Report.PhaseSince
	}
	return row
}

func rowOfCluster(r *Records, cluster *catalog.Cluster) *find.Row {
	row := &find.Row{Object: cluster, Phase: find.Connected}
	isConnected, at := r.presence.presenceOf(cluster)
	row.LastSeenAt = at
	switch {
	case isConnected:
	case at.IsZero():
		row.Phase = find.NotJoined
	default:
		row.Phase, row.Since = find.Disconnected, at
	}
	return row
}

func rowOfRepository(r *Records, repository *catalog.Repository) *find.Row {
	mirror, _ := r.sources.mirror(repository.Name)
	row := &find.Row{Object: repository, Phase: string(mirror.Phase), Problem: mirror.Problem, Since: mirror.ChangedAt}
	if mirror.Problem != nil {
		row.Since = mirror.Problem.Since
	}
	return row
}

func rowOfGlobal(r *Records, global *catalog.GlobalService) *find.Row {
	row := &find.Row{Object: global, Problem: Globals{r.catalog}.problem(global)}
	if row.Problem != nil {
		row.Since = row.Problem.Since
	}
	return row
}
