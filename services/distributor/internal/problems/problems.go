// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package problems finds the problems of a fleet: which objects have a problem, how bad it is, and
// which problems have one cause. Its functions are pure.
package problems

import (
	"fmt"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Severity is how bad a problem is.
type Severity int

// The severities, as leat.fleet.v1.ProblemSeverity. The larger is the worse.
const (
	None Severity = iota
	// Waiting continues by itself.
	Waiting
	// Warning works less well than it should, or needs a person's attention.
	Warning
	// Degraded runs, and is not healthy.
	Degraded
	// Failed failed, or cannot be reached.
	Failed
)

// noReason is the reason of problems whose message suffices.
const noReason reason.Reason = 0

// Item is one problem of one object.
type Item struct {
	Severity Severity
	Kind     catalog.Kind
	// Path is the path of the object.
	Path string
	// Cluster is the path of the cluster that the object is or belongs to; empty for repositories.
	Cluster string
	// Reason is zero if the message suffices.
	Reason  reason.Reason
	Message string
	Since   time.Time
	// Repository, Commit and Version belong to the source that a service has its problem with, or of
	// its first one.
	Repository, Commit, Version string
	// Filter selects objects with this problem, and perhaps others.
	Filter string
	// WaitsForPerson is true if it continues when a person decides.
	WaitsForPerson bool
	// names are the names in the message that belong to the object alone.
	names []string
}

// Of returns the problems of an object. uses has the services that use its cluster; nil: none does.
func Of(row *find.Row, uses *Uses) []Item {
	if of := inRows[row.Object.Key().Kind]; of != nil {
		return of(row, uses)
	}
	return nil
}

// inRows find the problems of objects in their rows, for the kinds of which the view knows them. Package standing has the
// others.
var inRows = map[catalog.Kind]func(*find.Row, *Uses) []Item{
	catalog.KindService: ofService, catalog.KindGlobalService: ofGlobal, catalog.KindCluster: ofCluster, catalog.KindRepository: ofRepository,
}

// IsInRows reports whether the problems of a kind are found in its rows.
func IsInRows(kind catalog.Kind) bool { return inRows[kind] != nil }

func ofService(row *find.Row, _ *Uses) []Item {
	service, _ := row.Object.(*catalog.Service)
	items := ofState(row, service)
	if row.Pin != nil {
		items = append(items, ofPin(service, row.Pin))
	}
	return items
}

func ofGlobal(row *find.Row, _ *Uses) []Item {
	global, _ := row.Object.(*catalog.GlobalService)
	return OfGlobal(global, row.Problem)
}

// ofState returns the problem of a service by its phase and its report.
func ofState(row *find.Row, service *catalog.Service) []Item {
	phase, problem := catalog.Phase(row.Phase), row.Problem
	item := Item{Kind: catalog.KindService, Path: service.Name, Cluster: service.Spec.Cluster, Since: row.Since}
	source := 0
	if problem == nil {
		// A held ref delivers its last good commit instead.
		for i := range row.Sources {
			if row.Sources[i].Problem != nil {
				source, problem = i, row.Sources[i].Problem
				break
			}
		}
	}
	switch {
	case problem != nil:
		item.Reason, item.Message = problem.Reason, problem.Message
		if !problem.Since.IsZero() {
			item.Since = problem.Since
		}
		item.Severity = severityOf(phase, problem.Reason)
		item.Filter = fmt.Sprintf("reason=%s phase=%s", problem.Reason, orUnknown(row.Phase))
	case phase == catalog.PhaseFailed, phase == catalog.PhaseDegraded:
		item.Severity, item.Message, item.Filter = severityOf(phase, noReason), "gives no reason", "phase="+row.Phase
	case row.Report != nil && len(row.Report.Drift) > 0:
		item.Severity, item.Reason, item.Filter = Warning, reason.DriftDetected, "drifted=true"
		item.Message = fmt.Sprintf("others have changed %d of its objects", len(row.Report.Drift))
	default:
		return nil
	}
	if source < len(service.Spec.Sources) {
		item.Repository = service.Spec.Sources[source].Repository
	}
	if source < len(row.Sources) && row.Sources[source].Snapshot != nil {
		item.Commit, item.Version = row.Sources[source].Snapshot.Commit, row.Sources[source].Snapshot.Version
	}
	_, name := objectname.Split(service.Name)
	_, cluster := objectname.Split(service.Spec.Cluster)
	item.names = []string{
		objectname.Display(service.Name), objectname.Display(service.LocalName()), name,
		objectname.Display(service.Spec.Cluster), cluster, service.Spec.Wanted().NamespaceOrDefault(),
	}
	return []Item{item}
}

func orUnknown(phase string) string {
	if phase == "" {
		return "UNKNOWN"
	}
	return phase
}

// severityOf returns how bad a service's problem is, by the place of the service.
func severityOf(phase catalog.Phase, why reason.Reason) Severity {
	switch phase {
	case catalog.PhaseFailed:
		return Failed
	case catalog.PhaseDegraded:
		return Degraded
	case catalog.PhaseHealthy, catalog.PhasePaused:
		return Warning
	case catalog.PhasePending, catalog.PhaseSyncing, catalog.PhaseProgressing, catalog.PhaseUnknown:
	}
	if catalog.Passes(why) || why == reason.DependencyNotReady || why == reason.SyncWindowClosed {
		return Waiting
	}
	return Warning
}

func ofCluster(row *find.Row, uses *Uses) []Item {
	cluster, _ := row.Object.(*catalog.Cluster)
	_, name := objectname.Split(cluster.Name)
	item := Item{
		Kind: catalog.KindCluster, Path: cluster.Name, Cluster: cluster.Name, Since: row.Since, Filter: "phase=" + row.Phase,
		names: []string{objectname.Display(cluster.Name), name},
	}
	var items []Item
	switch row.Phase {
	case find.Disconnected:
		item.Severity, item.Reason, item.Message = Failed, reason.AgentOffline, "the cluster's agent is not connected; workloads keep running, and the status shown may be out of date"
		items = append(items, item)
	case find.NotJoined:
		item.Since = cluster.CreatedAt
		item.Severity, item.Message = Waiting, "no agent has joined the cluster yet; leat cluster token makes a token for it"
		if uses.Services(cluster.Name) > 0 {
			item.Severity = Warning
		}
		items = append(items, item)
	}
	if !cluster.RemovalsHeldSince.IsZero() {
		item.Severity, item.Reason, item.Since, item.Filter = Warning, noReason, cluster.RemovalsHeldSince, ""
		item.Message = "the cluster's agent removes nothing since the hub was restored; look at what it holds, and release it with leat cluster release"
		items = append(items, item)
	}
	if lock := cluster.Agent.Report.Lock; lock != nil && !lock.Local && !lock.Hub && uses.isShared(cluster.Name) {
		item.Severity, item.Reason, item.Since, item.Filter = Warning, reason.ClusterUnlocked, time.Time{}, ""
		item.Message = "several projects use the cluster, and a service without a service account has the agent's own rights there; " +
			"give each service an account, and set LEAT_AGENT_LOCK_DOWN in the cluster"
		items = append(items, item)
	}
	if skew := SkewOf(uses.hubVersion(), cluster.Agent.Report.AgentVersion); skew != nil {
		item.Severity, item.Reason, item.Since, item.Filter = Warning, reason.AgentVersionSkew, time.Time{}, "version="+cluster.Agent.Report.AgentVersion
		item.Message = skew.Message
		items = append(items, item)
	}
	return items
}

func ofRepository(row *find.Row, _ *Uses) []Item {
	if row.Problem == nil {
		return nil
	}
	repository, _ := row.Object.(*catalog.Repository)
	_, name := objectname.Split(repository.Name)
	item := Item{
		Kind: catalog.KindRepository, Path: repository.Name, Since: row.Since, Reason: row.Problem.Reason, Message: row.Problem.Message,
		Filter: fmt.Sprintf("reason=%s", row.Problem.Reason), Severity: Degraded,
		names: []string{objectname.Display(repository.Name), name, repository.Spec.URL},
	}
	switch {
	case catalog.Passes(row.Problem.Reason):
		item.Severity = Waiting
	case row.Phase == "FAILED":
		item.Severity = Failed
	}
	return []Item{item}
}
