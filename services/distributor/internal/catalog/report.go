// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"time"
)

// Reason says why something failed: a value of the closed list leat.errors.v1.Reason without its prefix. This package
// knows only those it decides by.
type Reason string

// Reasons that pass by themselves: they say that somebody has to be asked again, not that something is wrong.
const (
	ReasonRepositoryNotReady    Reason = "REPOSITORY_NOT_READY"
	ReasonDependencyUnavailable Reason = "DEPENDENCY_UNAVAILABLE"
	ReasonOwnerUnavailable      Reason = "OWNER_UNAVAILABLE"
	ReasonOwnershipLost         Reason = "OWNERSHIP_LOST"
	ReasonShuttingDown          Reason = "SHUTTING_DOWN"
	ReasonDeadlineExceeded      Reason = "DEADLINE_EXCEEDED"
	ReasonRateLimited           Reason = "RATE_LIMITED"

	ReasonSignatureRejected Reason = "UPSTREAM_SIGNATURE_REJECTED"
)

// Passing tells whether the reason is about the way to an answer rather than an answer.
func (r Reason) Passing() bool {
	switch r {
	case ReasonRepositoryNotReady, ReasonDependencyUnavailable, ReasonOwnerUnavailable, ReasonOwnershipLost,
		ReasonShuttingDown, ReasonDeadlineExceeded, ReasonRateLimited:
		return true
	case ReasonSignatureRejected:
	}
	return false
}

// Problem is a failure as a state: it stands until it is mended.
type Problem struct {
	Reason Reason `json:"reason"`
	// Message is one sentence for a person.
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// Phase is where a service stands.
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

// ServiceReport is what an agent says became of one service.
type ServiceReport struct {
	Phase               Phase          `json:"phase,omitempty"`
	Problem             *Problem       `json:"problem,omitempty"`
	ObservedSpecDigest  string         `json:"observedSpecDigest,omitempty"`
	AppliedDigests      []string       `json:"appliedDigests,omitempty"`
	AppliedCommits      []string       `json:"appliedCommits,omitempty"`
	AppliedConfigDigest string         `json:"appliedConfigDigest,omitempty"`
	Counts              Counts         `json:"counts,omitzero"`
	Objects             []ObjectStatus `json:"objects,omitempty"`
	AppliedAt           time.Time      `json:"appliedAt,omitzero"`
	ApplyDuration       time.Duration  `json:"applyDuration,omitempty"`
	ObservedSyncRequest string         `json:"observedSyncRequest,omitempty"`
	PhaseSince          time.Time      `json:"phaseSince,omitzero"`
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
	Group     string   `json:"group,omitempty"`
	Version   string   `json:"version,omitempty"`
	Kind      string   `json:"kind,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name,omitempty"`
	Health    string   `json:"health,omitempty"`
	Problem   *Problem `json:"problem,omitempty"`
}

// ClusterReport is what an agent says of itself and its cluster. It is comparable.
type ClusterReport struct {
	AgentVersion      string    `json:"agentVersion,omitempty"`
	KubernetesVersion string    `json:"kubernetesVersion,omitempty"`
	Nodes             int32     `json:"nodes,omitempty"`
	StartedAt         time.Time `json:"startedAt,omitzero"`
}

// StoredReport is a service's report with what the hub knew when it came in.
type StoredReport struct {
	Service    string
	ServiceUID string
	// Report is nil when the agent no longer knows the service.
	Report *ServiceReport
	// Entry is the digest of the plan entry that the agent was working on; empty when the hub could not tell.
	Entry string
	// ObservedGeneration is the generation of the spec that the agent last reported on.
	ObservedGeneration int64
}
