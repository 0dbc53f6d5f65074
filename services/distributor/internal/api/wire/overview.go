// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// Bounds of what an agent reports about its cluster. The rest is cut, and counts below zero are
// read as zero.
const (
	maxCapabilities    = 64
	maxKubeletVersions = 16
	maxWarnings        = 10
	maxAllowedAccounts = 64
)

// MaxText bounds free text that an agent sends about itself, in bytes.
const MaxText = 256

// ClusterReportMessage returns the message of a cluster's report, or nil if nothing was reported.
func ClusterReportMessage(r catalog.ClusterReport) *distributorv1.ClusterReport {
	if r.Zero() {
		return nil
	}
	return &distributorv1.ClusterReport{
		AgentVersion:      r.AgentVersion,
		KubernetesVersion: r.KubernetesVersion,
		Nodes:             r.Nodes,
		StartedAt:         catalogwire.Timestamp(r.StartedAt),
		Overview:          overviewMessage(r.Overview),
		Capabilities:      r.Capabilities,
		Lock:              lockMessage(r.Lock),
		Provider:          r.Provider,
	}
}

func lockMessage(l *catalog.ClusterLock) *distributorv1.ClusterLock {
	if l == nil {
		return nil
	}
	return &distributorv1.ClusterLock{Local: l.Local, Hub: l.Hub, AllowedAccounts: l.AllowedAccounts}
}

func overviewMessage(o catalog.ClusterOverview) *distributorv1.ClusterOverview {
	if o.Zero() {
		return nil
	}
	m := &distributorv1.ClusterOverview{}
	if n := o.Nodes; n != nil {
		m.Nodes = &distributorv1.NodesOverview{
			Count: n.Count, Ready: n.Ready, Cordoned: n.Cordoned,
			Capacity: totalsMessage(n.Capacity), Allocatable: totalsMessage(n.Allocatable), KubeletVersions: n.KubeletVersions,
		}
	}
	if p := o.Pods; p != nil {
		m.Pods = &distributorv1.PodsOverview{
			Pending: p.Pending, Running: p.Running, Succeeded: p.Succeeded, Failed: p.Failed, Unknown: p.Unknown,
		}
	}
	if w := o.Warnings; w != nil {
		m.Warnings = &distributorv1.WarningsOverview{Count: w.Count, Latest: Each(w.Latest, warningMessage)}
	}
	return m
}

func warningMessage(w catalog.ClusterWarning) *distributorv1.ClusterWarning {
	return &distributorv1.ClusterWarning{
		Reason: w.Reason, Kind: w.Kind, Namespace: w.Namespace, Name: w.Name,
		Message: w.Message, Times: w.Times, LastSeenAt: catalogwire.Timestamp(w.LastSeenAt),
	}
}

func totalsMessage(t catalog.ResourceTotals) *distributorv1.ResourceTotals {
	if t == (catalog.ResourceTotals{}) {
		return nil
	}
	return &distributorv1.ResourceTotals{CpuMillis: t.CPUMillis, MemoryBytes: t.MemoryBytes, Pods: t.Pods}
}

// ClusterReportOf returns the report of a message.
func ClusterReportOf(m *distributorv1.ClusterReport) catalog.ClusterReport {
	return catalog.ClusterReport{
		AgentVersion:      cut(m.GetAgentVersion()),
		KubernetesVersion: cut(m.GetKubernetesVersion()),
		Nodes:             max(m.GetNodes(), 0),
		StartedAt:         catalogwire.TimeOf(m.GetStartedAt()),
		Capabilities:      capabilitiesOf(m.GetCapabilities()),
		Overview: catalog.ClusterOverview{
			Nodes: nodesOf(m.GetOverview().GetNodes()), Pods: podsOf(m.GetOverview().GetPods()), Warnings: warningsOf(m.GetOverview().GetWarnings()),
		},
		Lock:     lockOf(m.GetLock()),
		Provider: cut(m.GetProvider()),
	}
}

func lockOf(m *distributorv1.ClusterLock) *catalog.ClusterLock {
	if m == nil {
		return nil
	}
	return &catalog.ClusterLock{Local: m.GetLocal(), Hub: m.GetHub(), AllowedAccounts: Each(first(m.GetAllowedAccounts(), maxAllowedAccounts), cut)}
}

func capabilitiesOf(words []string) []string {
	all := Each(first(words, maxCapabilities), cut)
	slices.Sort(all)
	return slices.Compact(all)
}

func nodesOf(m *distributorv1.NodesOverview) *catalog.NodesOverview {
	if m == nil {
		return nil
	}
	return &catalog.NodesOverview{
		Count: max(m.GetCount(), 0), Ready: max(m.GetReady(), 0), Cordoned: max(m.GetCordoned(), 0),
		Capacity: totalsOf(m.GetCapacity()), Allocatable: totalsOf(m.GetAllocatable()), KubeletVersions: versionsOf(m.GetKubeletVersions()),
	}
}

// versionsOf returns the versions that most nodes run.
func versionsOf(counts map[string]int32) map[string]int32 {
	versions := slices.DeleteFunc(slices.Collect(maps.Keys(counts)), func(version string) bool {
		return version == "" || len(version) > MaxText || counts[version] <= 0
	})
	slices.SortFunc(versions, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	kept := map[string]int32{}
	for _, version := range first(versions, maxKubeletVersions) {
		kept[version] = counts[version]
	}
	return kept
}

func totalsOf(m *distributorv1.ResourceTotals) catalog.ResourceTotals {
	return catalog.ResourceTotals{CPUMillis: max(m.GetCpuMillis(), 0), MemoryBytes: max(m.GetMemoryBytes(), 0), Pods: max(m.GetPods(), 0)}
}

func podsOf(m *distributorv1.PodsOverview) *catalog.PodsOverview {
	if m == nil {
		return nil
	}
	return &catalog.PodsOverview{
		Pending: max(m.GetPending(), 0), Running: max(m.GetRunning(), 0), Succeeded: max(m.GetSucceeded(), 0),
		Failed: max(m.GetFailed(), 0), Unknown: max(m.GetUnknown(), 0),
	}
}

func warningsOf(m *distributorv1.WarningsOverview) *catalog.WarningsOverview {
	if m == nil {
		return nil
	}
	return &catalog.WarningsOverview{
		Count:  max(m.GetCount(), 0),
		Latest: Each(first(m.GetLatest(), maxWarnings), warningOf),
	}
}

func warningOf(m *distributorv1.ClusterWarning) catalog.ClusterWarning {
	w := catalog.ClusterWarning{
		Reason: cut(m.GetReason()), Kind: cut(m.GetKind()), Namespace: cut(m.GetNamespace()), Name: cut(m.GetName()),
		Message: cut(m.GetMessage()), Times: max(m.GetTimes(), 0),
	}
	if m.GetLastSeenAt().IsValid() {
		w.LastSeenAt = catalogwire.TimeOf(m.GetLastSeenAt())
	}
	return w
}

// cut returns the part of a text that an agent may send about itself, without a broken character at
// its end.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), MaxText)], "")
}
