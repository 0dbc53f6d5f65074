// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"time"
)

// ClusterReport is an agent's report on itself and its cluster.
type ClusterReport struct {
	AgentVersion      string    `json:"agentVersion,omitempty"`
	KubernetesVersion string    `json:"kubernetesVersion,omitempty"`
	Nodes             int32     `json:"nodes,omitempty"`
	StartedAt         time.Time `json:"startedAt,omitzero"`
	// Capabilities are the abilities and permissions of the agent, sorted; none from agents that
	// cannot tell.
	Capabilities []string        `json:"capabilities,omitempty"`
	Overview     ClusterOverview `json:"overview,omitzero"`
	// Lock is nil from agents that do not report it.
	Lock *ClusterLock `json:"lock,omitempty"`
	// Provider is where the cluster runs, if its nodes show it.
	Provider string `json:"provider,omitempty"`
}

// ClusterLock keeps services without an account from having the agent's own rights.
type ClusterLock struct {
	// Local is the cluster's own lock, and Hub the plan's.
	Local bool `json:"local,omitempty"`
	Hub   bool `json:"hub,omitempty"`
	// AllowedAccounts are the patterns of the cluster's own lock; none for every account.
	AllowedAccounts []string `json:"allowedAccounts,omitempty"`
}

// Zero reports whether nothing was reported.
func (r ClusterReport) Zero() bool {
	return r.AgentVersion == "" && r.KubernetesVersion == "" && r.Nodes == 0 && r.StartedAt.IsZero() && len(r.Capabilities) == 0 && r.Overview.Zero() && r.Lock == nil && r.Provider == ""
}

// Over returns the report as it reads after last: omitted parts of the overview are as they were.
// The other fields are always present.
func (r ClusterReport) Over(last ClusterReport) ClusterReport {
	r.Overview = r.Overview.Over(last.Overview)
	return r
}

// ClusterOverview sums a cluster up. Parts that are not known are nil, and in a report also
// unchanged ones. The values behind the pointers are never changed, so copies may share it.
type ClusterOverview struct {
	Nodes    *NodesOverview    `json:"nodes,omitempty"`
	Pods     *PodsOverview     `json:"pods,omitempty"`
	Warnings *WarningsOverview `json:"warnings,omitempty"`
}

// Zero reports whether no part is known.
func (o ClusterOverview) Zero() bool { return o == ClusterOverview{} }

// Over returns the overview with what last knew in the parts that it leaves out.
func (o ClusterOverview) Over(last ClusterOverview) ClusterOverview {
	return ClusterOverview{Nodes: cmp.Or(o.Nodes, last.Nodes), Pods: cmp.Or(o.Pods, last.Pods), Warnings: cmp.Or(o.Warnings, last.Warnings)}
}

// NodesOverview counts nodes, and sums up what they have.
type NodesOverview struct {
	Count int32 `json:"count,omitempty"`
	Ready int32 `json:"ready,omitempty"`
	// Cordoned are those marked as unschedulable.
	Cordoned    int32          `json:"cordoned,omitempty"`
	Capacity    ResourceTotals `json:"capacity,omitzero"`
	Allocatable ResourceTotals `json:"allocatable,omitzero"`
	// KubeletVersions is how many nodes run each version of the kubelet.
	KubeletVersions map[string]int32 `json:"kubeletVersions,omitempty"`
}

// ResourceTotals sums up resources. It is comparable.
type ResourceTotals struct {
	// CPUMillis are processors, in thousandths.
	CPUMillis   int64 `json:"cpuMillis,omitempty"`
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// Pods is how many fit.
	Pods int64 `json:"pods,omitempty"`
}

// PodsOverview counts pods by their phase. It is comparable.
type PodsOverview struct {
	Pending   int32 `json:"pending,omitempty"`
	Running   int32 `json:"running,omitempty"`
	Succeeded int32 `json:"succeeded,omitempty"`
	Failed    int32 `json:"failed,omitempty"`
	Unknown   int32 `json:"unknown,omitempty"`
}

// WarningsOverview tells the events of type Warning that the cluster remembers.
type WarningsOverview struct {
	Count int32 `json:"count,omitempty"`
	// Latest are the newest of them, the newest first.
	Latest []ClusterWarning `json:"latest,omitempty"`
}

// ClusterWarning is one event. It is comparable.
type ClusterWarning struct {
	// Reason is a word, such as FailedScheduling.
	Reason string `json:"reason,omitempty"`
	// Kind, Namespace and Name belong to the object that it is about.
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Message   string `json:"message,omitempty"`
	// Times is how often it happened.
	Times      int32     `json:"times,omitempty"`
	LastSeenAt time.Time `json:"lastSeenAt,omitzero"`
}
