// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// clusterKind shows clusters.
var clusterKind = kind{
	columns: []string{"NAME", "AGENT", "VERSION", "SKEW", "KUBERNETES", "NODES", "SERVICES", "LOCK", "LAST SEEN"},
	cells:   clusterCells,
	detail:  clusterDetail,
}

func clusterCells(object *fleetv1.Document, now time.Time) []cell {
	c := object.GetCluster()
	status := c.GetStatus()
	report := status.GetReport()
	return []cell{
		plain(c.GetMetadata().GetName()), agent(status), plain(report.GetAgentVersion()), skew(status.GetAgentSkew()), plain(report.GetKubernetesVersion()),
		nodes(report), ratio(status.GetServicesHealthy(), status.GetServices()), lock(report.GetLock()), ago(status.GetLastSeenAt(), now),
	}
}

func agent(status *fleetv1.ClusterStatus) cell {
	switch {
	case status.GetConnected():
		return cell{"connected", green}
	case status.GetEnrolled():
		return cell{"offline", red}
	default:
		return cell{"not enrolled", yellow}
	}
}

// skew shows how the version of an agent differs too much from the hub's.
func skew(s *fleetv1.AgentSkew) cell {
	switch {
	case s == nil:
		return plain("")
	case s.GetNewer():
		return cell{"too new", yellow}
	default:
		return cell{"too old", yellow}
	}
}

// nodes shows how many of a cluster's nodes are ready, or only their number if nothing else is
// known.
func nodes(report *distributorv1.ClusterReport) cell {
	switch overview := report.GetOverview().GetNodes(); {
	case overview != nil:
		return ratio(overview.GetReady(), overview.GetCount())
	case report.GetNodes() > 0:
		return plain(fmt.Sprint(report.GetNodes()))
	default:
		return plain("")
	}
}

// lock shows which side refuses services without an account: the cluster itself, which no plan can
// overrule, or the hub.
func lock(l *distributorv1.ClusterLock) cell {
	switch {
	case l == nil:
		return plain("")
	case l.GetLocal():
		return cell{"cluster", green}
	case l.GetHub():
		return plain("hub")
	default:
		return cell{"none", yellow}
	}
}

// clusterDetail returns where an agent is dialled, and what it reported of itself and its cluster.
func clusterDetail(style Style, now time.Time, object *fleetv1.Document) string {
	c := object.GetCluster()
	status := c.GetStatus()
	report := status.GetReport()
	overview := report.GetOverview()
	var out strings.Builder
	if overview != nil && !status.GetConnected() && status.GetLastSeenAt() != nil {
		fmt.Fprintf(&out, "\n%s\n", style.Warn("Its agent is not connected. This is the cluster's last report, from "+ago(status.GetLastSeenAt(), now).text+"."))
	}
	if held := status.GetRemovalsHeldSince(); held != nil {
		name := cmp.Or(c.GetMetadata().GetName(), "NAME")
		fmt.Fprintf(&out, "\n%s\n", style.Warn("Its agent removes nothing, because the hub was restored from a backup "+ago(held, now).text+
			". Put back what is missing, then run: leat cluster release "+name))
	}
	if s := status.GetAgentSkew(); s != nil {
		fmt.Fprintf(&out, "\n%s\n", style.Warn("Version skew: "+oneLine(s.GetMessage())))
	}
	facts := slices.Concat(endpointFacts(c.GetSpec()), nodeFacts(overview.GetNodes()), podFacts(overview.GetPods()), agentFacts(report, now))
	if len(facts) > 0 {
		out.WriteByte('\n')
	}
	for _, fact := range facts {
		out.WriteString(oneLine(fact) + "\n")
	}
	return out.String() + resources(style, overview.GetNodes()) + warnings(style, now, overview.GetWarnings())
}

func endpointFacts(spec *fleetv1.ClusterSpec) []string {
	if spec.GetAgentEndpoint() == "" {
		return nil
	}
	return []string{"The hub dials its agent at " + spec.GetAgentEndpoint()}
}

func nodeFacts(nodes *distributorv1.NodesOverview) []string {
	if nodes == nil {
		return nil
	}
	fact := fmt.Sprintf("Nodes: %d of %d ready", nodes.GetReady(), nodes.GetCount())
	if nodes.GetCordoned() > 0 {
		fact += fmt.Sprintf(", %d cordoned", nodes.GetCordoned())
	}
	facts := []string{fact}
	counts := nodes.GetKubeletVersions()
	var kubelets []string
	for _, version := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	}) {
		kubelets = append(kubelets, fmt.Sprintf("%s on %d", version, counts[version]))
	}
	if len(kubelets) > 0 {
		facts = append(facts, "Kubelets: "+strings.Join(kubelets, ", "))
	}
	return facts
}

// podFacts omits phases without pods.
func podFacts(pods *distributorv1.PodsOverview) []string {
	if pods == nil {
		return nil
	}
	var phases []string
	for _, phase := range []struct {
		count int32
		name  string
	}{
		{pods.GetRunning(), "running"},
		{pods.GetPending(), "pending"},
		{pods.GetFailed(), "failed"},
		{pods.GetUnknown(), "unknown"},
		{pods.GetSucceeded(), "succeeded"},
	} {
		if phase.count > 0 {
			phases = append(phases, fmt.Sprintf("%d %s", phase.count, phase.name))
		}
	}
	return []string{"Pods: " + cmp.Or(strings.Join(phases, ", "), "none")}
}

func agentFacts(report *distributorv1.ClusterReport, now time.Time) []string {
	var facts []string
	if report.GetStartedAt() != nil {
		facts = append(facts, fmt.Sprintf("Agent: %s, started %s", cmp.Or(report.GetAgentVersion(), "unknown"), ago(report.GetStartedAt(), now).text))
	}
	if report.GetLock() != nil {
		facts = append(facts, "Lock: "+lockFact(report.GetLock()))
	}
	if len(report.GetCapabilities()) > 0 {
		facts = append(facts, "Capabilities: "+strings.Join(report.GetCapabilities(), ", "))
	}
	return facts
}

// lockFact describes what keeps services without an account from having the agent's own rights.
func lockFact(l *distributorv1.ClusterLock) string {
	allowed := "every account outside of the agent's namespace"
	if len(l.GetAllowedAccounts()) > 0 {
		allowed = strings.Join(l.GetAllowedAccounts(), ", ")
	}
	switch {
	case l.GetLocal() && l.GetHub():
		return "the cluster's own and the hub's; services may have " + allowed
	case l.GetLocal():
		return "the cluster's own; services may have " + allowed
	case l.GetHub():
		return "the hub's alone, which an attacker there could unset"
	default:
		return "none; services without a service account have the agent's own rights"
	}
}

// resources returns the nodes' capacity, and the part of it that pods can use.
func resources(style Style, nodes *distributorv1.NodesOverview) string {
	capacity, allocatable := nodes.GetCapacity(), nodes.GetAllocatable()
	if capacity == nil && allocatable == nil {
		return ""
	}
	return "\n" + newGrid(style, "RESOURCE", "CAPACITY", "ALLOCATABLE").render([][]cell{
		{plain("cpu"), plain(cpu(capacity.GetCpuMillis())), plain(cpu(allocatable.GetCpuMillis()))},
		{plain("memory"), plain(memory(capacity.GetMemoryBytes())), plain(memory(allocatable.GetMemoryBytes()))},
		{plain("pods"), plain(strconv.FormatInt(capacity.GetPods(), 10)), plain(strconv.FormatInt(allocatable.GetPods(), 10))},
	})
}

// cpu formats processors like Kubernetes: "250m", "3.92", "64".
func cpu(millis int64) string {
	if millis < 1000 && millis > 0 {
		return fmt.Sprintf("%dm", millis)
	}
	return strconv.FormatFloat(float64(millis)/1000, 'f', -1, 64)
}

// warnings returns a cluster's latest warning events.
func warnings(style Style, now time.Time, told *distributorv1.WarningsOverview) string {
	if told == nil {
		return ""
	}
	count := fmt.Sprint(told.GetCount())
	switch latest := len(told.GetLatest()); {
	case told.GetCount() == 0 && latest == 0:
		count = "none"
	case int(told.GetCount()) > latest && latest > 0:
		count += fmt.Sprintf(", the latest %d:", latest)
	}
	text := fmt.Sprintf("\nWarnings: %s\n", count)
	if len(told.GetLatest()) == 0 {
		return text
	}
	rows := make([][]cell, len(told.GetLatest()))
	for i, event := range told.GetLatest() {
		rows[i] = []cell{
			plain(event.GetReason()), plain(objectName(event)), plain(fmt.Sprint(event.GetTimes())), ago(event.GetLastSeenAt(), now), {text: oneLine(event.GetMessage())},
		}
	}
	return text + newGrid(style, "WARNING", "OBJECT", "TIMES", "LAST", "MESSAGE").render(rows)
}
