// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"slices"

	"google.golang.org/protobuf/proto"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
)

// clusterNews are the parts of a ClusterReport that the hub has not acknowledged yet.
type clusterNews struct {
	report                bool // the report itself, with any of its parts
	nodes, pods, warnings bool // of its overview
}

// allNews returns all parts.
func allNews() clusterNews {
	return clusterNews{report: true, nodes: true, pods: true, warnings: true}
}

// newsSince compares two reports. If a part has disappeared, lost is true and a full report is
// needed, because other reports mean nothing by a missing part.
func newsSince(before, after *distributorv1.ClusterReport) (news clusterNews, lost bool) {
	old, now := before.GetOverview(), after.GetOverview()
	news.nodes = now.GetNodes() != nil && !proto.Equal(old.GetNodes(), now.GetNodes())
	news.pods = now.GetPods() != nil && !proto.Equal(old.GetPods(), now.GetPods())
	news.warnings = now.GetWarnings() != nil && !proto.Equal(old.GetWarnings(), now.GetWarnings())
	news.report = news.nodes || news.pods || news.warnings || !sameBase(before, after)
	lost = old.GetNodes() != nil && now.GetNodes() == nil || old.GetPods() != nil && now.GetPods() == nil ||
		old.GetWarnings() != nil && now.GetWarnings() == nil
	return news, lost
}

// sameBase compares the parts that every report of a cluster has.
func sameBase(a, b *distributorv1.ClusterReport) bool {
	return a != nil && b != nil && a.GetAgentVersion() == b.GetAgentVersion() &&
		a.GetKubernetesVersion() == b.GetKubernetesVersion() && a.GetNodes() == b.GetNodes() &&
		proto.Equal(a.GetStartedAt(), b.GetStartedAt()) && slices.Equal(a.GetCapabilities(), b.GetCapabilities()) &&
		proto.Equal(a.GetLock(), b.GetLock()) && a.GetProvider() == b.GetProvider()
}

// newsIn returns the parts of a cluster that a request contains.
func newsIn(request *distributorv1.ReportStatusRequest) clusterNews {
	o := request.GetCluster().GetOverview()
	return clusterNews{
		report: request.GetCluster() != nil, nodes: o.GetNodes() != nil, pods: o.GetPods() != nil, warnings: o.GetWarnings() != nil,
	}
}

func (n clusterNews) and(other clusterNews) clusterNews {
	return clusterNews{
		report: n.report || other.report, nodes: n.nodes || other.nodes, pods: n.pods || other.pods, warnings: n.warnings || other.warnings,
	}
}

// of returns the part of a report that is to be sent, or nil if nothing is. It shares memory with
// the report. A full report has an overview even if all its parts are unknown, which removes the
// earlier one at the hub.
func (n clusterNews) of(cluster *distributorv1.ClusterReport, full bool) *distributorv1.ClusterReport {
	if !n.report || cluster == nil {
		return nil
	}
	sent := &distributorv1.ClusterReport{
		AgentVersion: cluster.GetAgentVersion(), KubernetesVersion: cluster.GetKubernetesVersion(), Nodes: cluster.GetNodes(),
		StartedAt: cluster.GetStartedAt(), Capabilities: cluster.GetCapabilities(), Lock: cluster.GetLock(), Provider: cluster.GetProvider(),
	}
	if full || n.nodes || n.pods || n.warnings {
		sent.Overview = &distributorv1.ClusterOverview{}
	}
	if n.nodes {
		sent.Overview.Nodes = cluster.GetOverview().GetNodes()
	}
	if n.pods {
		sent.Overview.Pods = cluster.GetOverview().GetPods()
	}
	if n.warnings {
		sent.Overview.Warnings = cluster.GetOverview().GetWarnings()
	}
	return sent
}
