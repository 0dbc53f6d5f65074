// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/problems"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// ServiceStatus is the state of a service.
type ServiceStatus struct {
	Phase   catalog.Phase
	Problem *catalog.Problem
	// Sources are in the order of the spec.
	Sources []catalog.Resolution
	// Report is nil before the agent's first.
	Report *catalog.ServiceReport
	// Synced means that the desired content is applied.
	Synced             bool
	ObservedGeneration int64
	// HasPauseEnded means that the pause of the spec has ended by itself.
	HasPauseEnded bool
	// Hold is why the service has other content than its sources hold. Nil: it has theirs.
	Hold *Hold
}

// Hold is why a service has another release than its spec and its sources make.
type Hold struct {
	*catalog.Admission
	// Policy is the path of the policy whose rollouts decide; empty for a pin.
	Policy string
	// Own is the staged part of the service's own spec if the service is held at another one, and else nil.
	Own *catalog.StagedSpec
	// IsConfigHeld is true if the service is held at another configuration than its own.
	IsConfigHeld bool
	// IsNewcomer is true if the policy has not taken the service over: nothing is held, and the agent
	// is given nothing. Describe sets WaitsFor to the reason, as a sentence.
	IsNewcomer bool
	WaitsFor   string
}

// ClusterStatus is the state of a cluster.
type ClusterStatus struct {
	Enrolled        bool
	Connected       bool
	LastSeenAt      time.Time
	Report          catalog.ClusterReport
	PlanVersion     string
	Services        int
	ServicesHealthy int
	// AgentSkew is nil if the agent's version goes with the hub's.
	AgentSkew *problems.Skew
}

// serviceFacts is everything that a service's status is derived from. Its methods are pure.
type serviceFacts struct {
	service *catalog.Service
	// agent is the agent of the service's cluster.
	agent   catalog.Agent
	entry   plan.Entry
	sources []catalog.Resolution
	// mirrors are the mirrors of the sources' repositories.
	mirrors []catalog.Mirror
	report  catalog.StoredReport
	// isUnread is true while the report is in the store alone.
	isUnread bool
	// spec is the one that the service is planned with. isSpecHeld is true if that, or
	// the configuration, is not the service's own.
	spec       catalog.ServiceSpec
	isSpecHeld bool
	// configured is the service with the configuration that it is planned with.
	configured *catalog.Service
}

// status returns the service's status. A source that cannot be resolved comes first, then an agent
// that the service is withheld from, then a configuration that waits for a value, then what the agent
// reports about the desired state. A report
// about another state only shows that the agent has not reached the desired one yet.
func (f serviceFacts) status() ServiceStatus {
	s := ServiceStatus{
		Phase:              catalog.PhasePending,
		Sources:            f.shownSources(),
		Report:             f.report.Report,
		Synced:             f.isSynced(),
		ObservedGeneration: f.observedGeneration(),
		HasPauseEnded:      f.service.Spec.Wanted().Paused && !f.entry.IsPaused(),
	}
	problem, hasFailed := f.sourceProblem()
	withheld, isOutdated := f.agentProblem()
	switch {
	case hasFailed:
		s.Phase, s.Problem = catalog.PhaseFailed, problem
	case isOutdated:
		s.Phase, s.Problem = catalog.PhaseFailed, withheld
	case problem != nil:
		s.Problem = problem
	case withheld != nil:
		s.Problem = withheld
	case f.configured.ConfigWaits:
		s.Problem = f.configured.ConfigProblem
	case f.isUnread:
		s.Problem = unreadReport()
	case len(f.entry.Bundles) == 0:
	case f.isCurrent(), f.isDryRun():
		s.Phase, s.Problem = f.report.Report.Phase, f.report.Report.Problem
	case f.entry.IsPaused(): // as of now, unlike the service's spec
		s.Phase = catalog.PhasePaused
	case f.report.Report != nil:
		s.Phase = catalog.PhaseSyncing
	}
	if s.Problem == nil {
		s.Problem = cmp.Or(f.configured.ConfigProblem, f.service.ConfigProblem) // beside the phase: the applied objects work
	}
	return s
}

// shownSources returns the sources, with a problem if a commit of theirs is held back. That is not
// a failure: the last good commit is delivered instead.
func (f serviceFacts) shownSources() []catalog.Resolution {
	shown := slices.Clone(f.sources)
	for i, mirror := range f.mirrors {
		p := mirror.Problem
		if shown[i].Problem == nil && p != nil && p.Reason == reason.UpstreamSignatureRejected &&
			mirror.Holds(f.service.Spec.Sources[i]) {
			shown[i].Problem = p
		}
	}
	return shown
}

// sourceProblem returns the first source's problem. hasFailed is true if the problem does not pass
// without a change.
func (f serviceFacts) sourceProblem() (problem *catalog.Problem, hasFailed bool) {
	for i, source := range f.sources {
		p := source.Problem
		if p == nil {
			continue
		}
		if p.Reason == reason.RepositoryNotReady && f.mirrors[i].Problem != nil {
			p = f.mirrors[i].Problem
		}
		if !catalog.Passes(p.Reason) {
			return p, true
		}
		if problem == nil {
			problem = p
		}
	}
	return problem, false
}

// agentProblem returns why the service is withheld from the cluster's agent, or nil. isOutdated is
// false while the agent has not said yet what it can do.
func (f serviceFacts) agentProblem() (problem *catalog.Problem, isOutdated bool) {
	lacking, cluster := f.agent.Lacks(f.spec.Requires()), objectname.Display(f.service.Spec.Cluster)
	switch {
	case len(lacking) == 0:
		return nil, false
	case f.agent.Instance == "":
		return &catalog.Problem{Reason: reason.AgentOffline, Message: fmt.Sprintf(
			"the agent of cluster %s has not reported yet whether it can %s; the service waits for its first report", cluster, abilities(lacking))}, false
	}
	return &catalog.Problem{Reason: reason.AgentOutdated, Message: fmt.Sprintf(
		"the agent of cluster %s (version %s) cannot %s; upgrade it. Until then the service stays as it is in the cluster",
		cluster, cmp.Or(f.agent.Report.AgentVersion, "unknown"), abilities(lacking))}, true
}

// abilities returns what capability words mean, as a phrase that follows "can".
func abilities(words []string) string {
	phrases := make([]string, len(words))
	for i, word := range words {
		phrases[i] = renderstep.Ability(word)
	}
	return strings.Join(phrases, " or ")
}

// isSynced reports whether the agent has applied everything that is desired.
func (f serviceFacts) isSynced() bool {
	r := f.report.Report
	return r != nil && r.DryRun == nil && r.Phase != catalog.PhasePending &&
		len(f.entry.Bundles) > 0 && r.ObservedSpecDigest == f.entry.SpecDigest &&
		r.AppliedConfigDigest == f.entry.ConfigDigest && slices.Equal(r.AppliedDigests, f.entry.Digests())
}

// isCurrent reports whether the report is about the desired state.
func (f serviceFacts) isCurrent() bool {
	r := f.report.Report
	if r == nil || r.Phase == catalog.PhaseUnknown {
		return false
	}
	if f.isSynced() {
		return true
	}
	switch r.Phase {
	case catalog.PhaseHealthy, catalog.PhaseProgressing, catalog.PhaseDegraded:
		// These claim that everything desired is applied, but the digests differ.
		return false
	case catalog.PhaseUnknown, catalog.PhasePending, catalog.PhaseSyncing, catalog.PhaseFailed, catalog.PhasePaused:
	}
	if tried, ok := r.Tried(); ok {
		return tried.SpecDigest == f.entry.SpecDigest && tried.ConfigDigest == f.entry.ConfigDigest &&
			slices.Equal(tried.Digests, f.entry.Digests())
	}
	return f.report.Entry == f.entry.Digest
}

// isDryRun reports whether the report is about a dry run of the desired state. The rest of such a
// report is about the applied objects, which is another state.
func (f serviceFacts) isDryRun() bool {
	return f.report.Report != nil && f.report.Report.DryRun != nil && f.report.Entry == f.entry.Digest
}

// observedGeneration returns the generation of the spec if the report is about that spec, whatever
// the replica that took the report knew, and else the generation that was stored with the report. While a
// rollout holds the service at an earlier spec, no report is about the present one.
func (f serviceFacts) observedGeneration() int64 {
	if r := f.report.Report; r != nil && !f.isSpecHeld && len(f.entry.Bundles) > 0 && r.ObservedSpecDigest == f.entry.SpecDigest {
		return f.service.Generation
	}
	return f.report.ObservedGeneration
}
