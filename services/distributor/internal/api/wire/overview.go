// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// Bounds of what an agent reports about its cluster. The rest is cut, and counts below zero are read as zero.
const (
	maxCapabilities    = 64
	maxKubeletVersions = 16
	maxWarnings        = 10
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
		StartedAt:         Timestamp(r.StartedAt),
		Overview:          overviewMessage(r.Overview),
		Capabilities:      r.Capabilities,
	}
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
		m.Warnings = &distributorv1.WarningsOverview{Count: w.Count}
		for _, event := range w.Latest {
			m.Warnings.Latest = append(m.Warnings.Latest, &distributorv1.ClusterWarning{
				Reason: event.Reason, Kind: event.Kind, Namespace: event.Namespace, Name: event.Name,
				Message: event.Message, Times: event.Times, LastSeenAt: Timestamp(event.LastSeenAt),
			})
		}
	}
	return m
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
		StartedAt:         TimeOf(m.GetStartedAt()),
		Capabilities:      capabilitiesOf(m.GetCapabilities()),
		Overview: catalog.ClusterOverview{
			Nodes: nodesOf(m.GetOverview().GetNodes()), Pods: podsOf(m.GetOverview().GetPods()), Warnings: warningsOf(m.GetOverview().GetWarnings()),
		},
	}
}

func capabilitiesOf(words []string) []string {
	var all []string
	for _, word := range words[:min(len(words), maxCapabilities)] {
		all = append(all, cut(word))
	}
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

// versionsOf keeps the versions that most nodes run.
func versionsOf(counts map[string]int32) map[string]int32 {
	versions := slices.DeleteFunc(slices.Collect(maps.Keys(counts)), func(version string) bool {
		return version == "" || len(version) > MaxText || counts[version] <= 0
	})
	slices.SortFunc(versions, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	kept := map[string]int32{}
	for _, version := range versions[:min(len(versions), maxKubeletVersions)] {
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
	w := &catalog.WarningsOverview{Count: max(m.GetCount(), 0)}
	for _, event := range m.GetLatest()[:min(len(m.GetLatest()), maxWarnings)] {
		warning := catalog.ClusterWarning{
			Reason: cut(event.GetReason()), Kind: cut(event.GetKind()), Namespace: cut(event.GetNamespace()), Name: cut(event.GetName()),
			Message: cut(event.GetMessage()), Times: max(event.GetTimes(), 0),
		}
		if event.GetLastSeenAt().IsValid() {
			warning.LastSeenAt = TimeOf(event.GetLastSeenAt())
		}
		w.Latest = append(w.Latest, warning)
	}
	return w
}

// cut leaves as much of a text as an agent may send of itself, and no broken character at its end.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), MaxText)], "")
}
