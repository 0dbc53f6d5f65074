// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"cmp"
	"maps"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/problems"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// maxRowMessage bounds the message of a row, in characters.
const maxRowMessage = 200

// rowMessage has everything but what depends on the caller.
func rowMessage(row *find.Row) *fleetv1.FleetRow {
	key, meta := row.Object.Key(), row.Object.Meta()
	project, name := objectname.Split(meta.Name)
	m := &fleetv1.FleetRow{
		Ref: meta.Name, Name: meta.Name, Labels: meta.Labels, Phase: row.Phase, Since: catalogwire.Timestamp(row.Since), CreateTime: catalogwire.Timestamp(meta.CreatedAt),
	}
	if key.Kind.InProject() {
		m.Ref, m.Name, m.Project = refOf(meta.Name), name, project
	}
	if row.Problem != nil {
		m.Reason, m.Message = errorsv1.Reason(row.Problem.Reason), firstOf(row.Problem.Message, maxRowMessage)
	}
	if addTo := kinds[key.Kind].addTo; addTo != nil {
		addTo(m, row)
	}
	return m
}

func addCluster(m *fleetv1.FleetRow, row *find.Row) {
	cluster, _ := row.Object.(*catalog.Cluster)
	m.LastSeenAt, m.KubernetesVersion = catalogwire.Timestamp(row.LastSeenAt), cluster.Agent.Report.KubernetesVersion
	if version := cluster.Agent.Report.AgentVersion; version != "" {
		m.Versions = []string{version}
	}
}

func addRepository(m *fleetv1.FleetRow, row *find.Row) {
	repository, _ := row.Object.(*catalog.Repository)
	m.Url = repository.Spec.URL
}

func addService(m *fleetv1.FleetRow, row *find.Row) {
	service, _ := row.Object.(*catalog.Service)
	m.Cluster, m.Namespace = refOf(service.Spec.Cluster), service.Spec.Wanted().NamespaceOrDefault()
	m.Synced = row.Synced
	if pause := service.Spec.Wanted().Pause(); pause.At(catalog.Now()) {
		m.Paused, m.PausedUntil = true, catalogwire.Timestamp(pause.Until)
	}
	for i, source := range service.Spec.Sources {
		m.Repositories = append(m.Repositories, refOf(source.Repository))
		if i < len(row.Sources) && row.Sources[i].Snapshot != nil {
			m.Commits = append(m.Commits, row.Sources[i].Snapshot.Commit)
			if version := row.Sources[i].Snapshot.Version; version != "" {
				m.Versions = append(m.Versions, version)
			}
		}
	}
	if r := row.Report; r != nil {
		m.Drifted, m.Total, m.Healthy = int32(len(r.Drift)), r.Counts.Total, r.Counts.Healthy
		m.AppliedCommits, m.AppliedVersions = r.AppliedCommits, r.AppliedVersions
	}
}

// firstOf returns the first characters of a text.
func firstOf(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

func groupsMessage(result *find.Result) []*fleetv1.FleetGroups {
	return wire.Each(result.Groups, func(g find.Groups) *fleetv1.FleetGroups {
		return &fleetv1.FleetGroups{Field: g.Field, Omitted: int32(g.Omitted), Groups: wire.Each(g.Counts, func(n find.Count) *fleetv1.FleetGroup {
			return &fleetv1.FleetGroup{Value: n.Value, Count: int32(n.N)}
		})}
	})
}

// arrivalMessage returns nil for a query that measures nothing.
func arrivalMessage(a *find.Arrival) *fleetv1.CommitArrival {
	if a == nil {
		return nil
	}
	return &fleetv1.CommitArrival{Applied: timesMessage(a.Applied), Healthy: timesMessage(a.Healthy)}
}

func timesMessage(t find.Times) *fleetv1.ArrivalTimes {
	m := &fleetv1.ArrivalTimes{Count: int32(t.Count), Pending: int32(t.Pending), Unknown: int32(t.Unknown)}
	if t.Count == 0 {
		return m
	}
	m.P50, m.P90, m.P99, m.Max = durationpb.New(t.P50), durationpb.New(t.P90), durationpb.New(t.P99), durationpb.New(t.Max)
	m.Slowest = wire.Each(t.Slowest, func(s find.Slow) *fleetv1.Arrival {
		return &fleetv1.Arrival{Ref: refOf(s.Service.Name), Took: durationpb.New(s.Took)}
	})
	return m
}

// orUnknown names the phase that is not known.
func orUnknown(phase string) string { return cmp.Or(phase, "UNKNOWN") }

func groupMessages(counts map[string]int32) []*fleetv1.FleetGroup {
	return wire.Each(slices.Sorted(maps.Keys(counts)), func(value string) *fleetv1.FleetGroup {
		return &fleetv1.FleetGroup{Value: value, Count: counts[value]}
	})
}

func problemMessage(g problems.Group) *fleetv1.ProblemGroup {
	return &fleetv1.ProblemGroup{
		Severity: fleetv1.ProblemSeverity(g.Severity), Kind: string(g.Kind), Reason: errorsv1.Reason(g.Reason), Message: g.Message,
		Repository: refOf(g.Repository), Commit: g.Commit, Version: g.Version,
		Objects: int32(g.Objects), Clusters: int32(g.Clusters), Services: int32(g.Services),
		FirstSince: catalogwire.Timestamp(g.First), LastSince: catalogwire.Timestamp(g.Last),
		Examples: wire.Each(g.Examples, refOf), Filter: g.Filter,
	}
}
