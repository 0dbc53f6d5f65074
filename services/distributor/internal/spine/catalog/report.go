// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
)

// Passes reports whether the reason is about the way to an answer rather than an answer: the
// question has to be repeated, and nothing is wrong.
func Passes(r reason.Reason) bool {
	switch r {
	case reason.RepositoryNotReady, reason.DependencyUnavailable, reason.OwnerUnavailable, reason.OwnershipLost,
		reason.ShuttingDown, reason.DeadlineExceeded, reason.RateLimited:
		return true
	default:
		return false
	}
}

// Problem is a failure as a state: it remains until it is fixed.
type Problem struct {
	Reason reason.Reason `json:"reason"`
	// Message is one sentence for a person.
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// Phase is the state of a service.
type Phase string

// The phases, as leat.type.v1.ServicePhase without its prefix.
const (
	PhaseUnknown     Phase = ""
	PhasePending     Phase = "PENDING"
	PhaseSyncing     Phase = "SYNCING"
	PhaseProgressing Phase = "PROGRESSING"
	PhaseHealthy     Phase = "HEALTHY"
	PhaseDegraded    Phase = "DEGRADED"
	PhaseFailed      Phase = "FAILED"
	PhasePaused      Phase = "PAUSED"
)

// ServiceReport is an agent's report on one service.
type ServiceReport struct {
	Phase               Phase          `json:"phase,omitempty"`
	Problem             *Problem       `json:"problem,omitempty"`
	ObservedSpecDigest  string         `json:"observedSpecDigest,omitempty"`
	AppliedDigests      []string       `json:"appliedDigests,omitempty"`
	AppliedCommits      []string       `json:"appliedCommits,omitempty"`
	AppliedVersions     []string       `json:"appliedVersions,omitempty"`
	AppliedConfigDigest string         `json:"appliedConfigDigest,omitempty"`
	Counts              Counts         `json:"counts,omitzero"`
	Objects             []ObjectStatus `json:"objects,omitempty"`
	AppliedAt           time.Time      `json:"appliedAt,omitzero"`
	ApplyDuration       time.Duration  `json:"applyDuration,omitempty"`
	ObservedSyncRequest string         `json:"observedSyncRequest,omitempty"`
	PhaseSince          time.Time      `json:"phaseSince,omitzero"`
	// ObservedDigests, ObservedCommits, ObservedVersions and ObservedConfigDigest belong to the plan
	// entry that was last tried; read them through Tried.
	ObservedDigests      []string  `json:"observedDigests,omitempty"`
	ObservedCommits      []string  `json:"observedCommits,omitempty"`
	ObservedVersions     []string  `json:"observedVersions,omitempty"`
	ObservedConfigDigest string    `json:"observedConfigDigest,omitempty"`
	PlannedAt            time.Time `json:"plannedAt,omitzero"`
	Timings              Timings   `json:"timings,omitzero"`
	// Trigger is what brought the content that was last tried; nil: not known. It is not kept: the content's revision has it.
	Trigger *Trigger `json:"-"`
	// Drift are objects that others have changed.
	Drift []ObjectDrift `json:"drift,omitempty"`
	// Tests are the results of the tests of the applied objects.
	Tests []TestResult `json:"tests,omitempty"`
	// RunningTest is the test that the service waits for; nil where none runs.
	RunningTest *TestResult `json:"runningTest,omitempty"`
	// DryRun lists the changes that would be applied; nil where the service is no dry run.
	DryRun *DryRun `json:"dryRun,omitempty"`
	// GuardedDigest names the objects that the agent's guard keeps from leaving the service,
	// Guarded lists them.
	GuardedDigest string      `json:"guardedDigest,omitempty"`
	Guarded       []ObjectRef `json:"guarded,omitempty"`
	// Warnings are the renderers' warnings from the latest render.
	Warnings []string `json:"warnings,omitempty"`
}

// ObjectRef names an object of a cluster.
type ObjectRef struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// Timings are the times that a service took from the plan to health, on the agent's clock.
// Unreached ones are zero. It is comparable.
type Timings struct {
	ArrivedAt time.Time     `json:"arrivedAt,omitzero"`
	Download  time.Duration `json:"download,omitempty"`
	Render    time.Duration `json:"render,omitempty"`
	Apply     time.Duration `json:"apply,omitempty"`
	Healthy   time.Duration `json:"healthy,omitempty"`
	// RenderWait is how long Render waited for its turn, which is not part of it.
	RenderWait time.Duration `json:"renderWait,omitempty"`
}

// Content is the content that a service was made of.
type Content struct {
	SpecDigest   string   `json:"specDigest,omitempty"`
	ConfigDigest string   `json:"configDigest,omitempty"`
	Digests      []string `json:"digests,omitempty"`
	// Commits and Versions are for people; they take no part in Same.
	Commits  []string `json:"commits,omitempty"`
	Versions []string `json:"versions,omitempty"`
}

// Same reports whether both are the same content.
func (c Content) Same(other Content) bool {
	return c.SpecDigest == other.SpecDigest && c.ConfigDigest == other.ConfigDigest && slices.Equal(c.Digests, other.Digests)
}

// Tried returns the content that the report is about; false when it is about none, or does not
// tell.
func (r *ServiceReport) Tried() (Content, bool) {
	if r.DryRun != nil {
		return Content{}, false // the phase is of the applied state, which is another
	}
	switch r.Phase {
	case PhaseProgressing, PhaseHealthy, PhaseDegraded:
		// These claim that everything desired is applied.
		c := Content{
			SpecDigest: r.ObservedSpecDigest, ConfigDigest: r.AppliedConfigDigest,
			Digests: r.AppliedDigests, Commits: r.AppliedCommits, Versions: r.AppliedVersions,
		}
		return c, len(c.Digests) > 0
	case PhaseSyncing, PhaseFailed:
		c := Content{
			SpecDigest: r.ObservedSpecDigest, ConfigDigest: r.ObservedConfigDigest,
			Digests: r.ObservedDigests, Commits: r.ObservedCommits, Versions: r.ObservedVersions,
		}
		return c, len(c.Digests) > 0
	case PhaseUnknown, PhasePending, PhasePaused:
	}
	return Content{}, false
}

// Counts counts a service's objects by health.
type Counts struct {
	Total       int32 `json:"total,omitempty"`
	Healthy     int32 `json:"healthy,omitempty"`
	Progressing int32 `json:"progressing,omitempty"`
	Failed      int32 `json:"failed,omitempty"`
}

// ObjectStatus is one Kubernetes object that needs attention.
type ObjectStatus struct {
	ObjectRef

	Health  string   `json:"health,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// StoredReport is a service's report with what the hub knew when it came in.
type StoredReport struct {
	Service string
	// ServiceUID keeps a new service from inheriting the status of an old one.
	ServiceUID string
	// Report is nil when the agent no longer knows the service.
	Report *ServiceReport
	// Damage is why the store cannot read the report, as after an edit by hand; nil otherwise. Report
	// is nil then, and the next report of the agent replaces the stored one.
	Damage error
	// Entry is the digest of the plan entry that the agent was working on; empty when the hub could
	// not tell.
	Entry string
	// ObservedGeneration is the generation of the spec that the agent last reported on; in an
	// AgentReport zero means that this report is about another spec than the current one.
	ObservedGeneration int64
}

// AgentReport is one report of an agent.
type AgentReport struct {
	ClusterUID string
	Instance   string
	// Sequence grows with every report of an instance, from 1.
	Sequence uint64
	// Replaces is the instance after which a full report of a new one comes; nil when the agent
	// cannot tell.
	Replaces *string
	// Acknowledged is the latest sequence whose receipt the instance has seen; zero when none, or
	// when it cannot tell.
	Acknowledged uint64
	// Full means that Services are all that the agent knows.
	Full        bool
	PlanVersion string
	// Cluster is nil when unchanged. Unless the report is Full, so is each part of its overview
	// that is nil; a full report forgets those.
	Cluster *ClusterReport
	// Services are the changed ones; of one that is named twice the last counts.
	Services []StoredReport
	// ReceivedAt is when the hub was told.
	ReceivedAt time.Time
	// Bytes is about how much memory the report takes.
	Bytes int
}

// Receipt is the outcome of an AgentReport that did not fail: it is durable, or older than the
// durable one; unless WantFull.
type Receipt struct {
	// WantFull means that nothing was taken: the stored state is Current's.
	WantFull bool
	// Current is the instance whose reports are stored; "" while there are none.
	Current string
}

// Verdict is how to treat a report.
type Verdict int

// The verdicts.
const (
	// Take it.
	Take Verdict = iota
	// Outdated means that a newer report of the same instance was taken, which contains all of this
	// one.
	Outdated
	// WantFull means that it is not enough: it builds on reports that the hub does not have, or comes
	// from an instance that may have ended.
	WantFull
)

// Judge decides about a report, given whose reports are stored and up to which. Reports may come
// twice, out of order, from processes that have ended, and to any replica; the state stored in the
// end is the last report of the agent's last process.
func (a Agent) Judge(r AgentReport) Verdict {
	switch {
	case r.Instance == a.Instance && r.Sequence <= a.Sequence:
		return Outdated
	case r.Instance == a.Instance && !r.Full && r.Acknowledged > a.Sequence:
		return WantFull // the store lost what it had said to be durable
	case r.Instance == a.Instance:
		return Take
	case !r.Full, r.Replaces != nil && *r.Replaces != a.Instance:
		return WantFull
	}
	return Take
}
