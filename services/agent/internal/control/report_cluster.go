// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"slices"

	"google.golang.org/protobuf/proto"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
)

// clusterNews tells what of a ClusterReport the hub has yet to take.
type clusterNews struct {
	report                bool // it, whatever else of it
	nodes, pods, warnings bool // of its overview
}

// allNews is everything.
func allNews() clusterNews {
	return clusterNews{report: true, nodes: true, pods: true, warnings: true}
}

// newsSince compares two reports. A part that is lost takes a full report: others say nothing of what they do not hold.
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

// sameBase compares what is in every report of a cluster.
func sameBase(a, b *distributorv1.ClusterReport) bool {
	return a != nil && b != nil && a.GetAgentVersion() == b.GetAgentVersion() && a.GetKubernetesVersion() == b.GetKubernetesVersion() &&
		a.GetNodes() == b.GetNodes() && proto.Equal(a.GetStartedAt(), b.GetStartedAt()) && slices.Equal(a.GetCapabilities(), b.GetCapabilities())
}

// newsIn tells what of a cluster a request holds.
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

// of returns what of a report is to be sent; nil: nothing. It shares its parts. In a full report the overview is there even if
// nothing is known: then there is nothing to show, whatever there was before.
func (n clusterNews) of(cluster *distributorv1.ClusterReport, full bool) *distributorv1.ClusterReport {
	if !n.report || cluster == nil {
		return nil
	}
	sent := &distributorv1.ClusterReport{
		AgentVersion: cluster.GetAgentVersion(), KubernetesVersion: cluster.GetKubernetesVersion(), Nodes: cluster.GetNodes(),
		StartedAt: cluster.GetStartedAt(), Capabilities: cluster.GetCapabilities(),
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
