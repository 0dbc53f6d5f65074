// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leatdev/leat/cli/internal/delivery"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/document"
)

// columnsOf returns the titles of a kind's table.
func columnsOf(kind string) []string {
	switch kind {
	case "Cluster":
		return []string{"NAME", "AGENT", "VERSION", "KUBERNETES", "NODES", "SERVICES", "LOCK", "LAST SEEN"}
	case "Repository":
		return []string{"NAME", "PHASE", "REFS", "CHECKED", "URL", "MESSAGE"}
	case "User":
		return []string{"NAME", "GROUPS", "DESCRIPTION"}
	case "IdentityProvider":
		return []string{"NAME", "ISSUER", "CLIENT", "SESSIONS", "SUSPENDED"}
	case "TrustRule":
		return []string{"NAME", "ISSUER", "AUDIENCE", "USERS", "GROUPS", "REQUIRES"}
	case "ConfigBackend":
		return []string{"NAME", "KIND", "PLACE", "PROJECTS", "PATHS", "ENTRIES", "FAILING", "READ", "PROBLEM"}
	case "ConfigSet":
		return []string{"NAME", "VALUES", "SECRETS", "REFERENCES", "DESCRIPTION"}
	case "GlobalService":
		return []string{"NAME", "CLUSTERS", "HEALTHY", "CONFLICTS", "FAILING", "FORBIDDEN", "OVERRIDES", "PROBLEM"}
	case "Notifier":
		return []string{"NAME", "SINK", "TARGET", "EVENTS", "SENT", "WAITING", "DEAD", "LOST", "ERROR"}
	case "RolloutPolicy":
		return []string{"NAME", "SERVICES", "ROLLOUT", "STATE", "WAVE", "ARRIVED", "STARTED", "MESSAGE"}
	case "FleetSource":
		return []string{"NAME", "REPOSITORY", "COMMIT", "DOCUMENTS", "MANAGED", "FAILED", "HELD", "SUCCEEDED", "MESSAGE"}
	case "AccessBinding":
		return []string{"NAME", "ROLE", "USERS", "GROUPS", "SCOPE", "COVERS", "RULES", "ENDS"}
	case "Role":
		return []string{"NAME", "PERMISSIONS", "IN CLUSTERS", "DESCRIPTION"}
	case "Project":
		return []string{"NAME", "CLUSTERS", "REPOSITORIES", "SERVICES", "BUNDLES", "DESCRIPTION"}
	default:
		return []string{"NAME", "CLUSTER", "PHASE", "SYNCED", "VERSION", "OBJECTS", "SINCE", "MESSAGE"}
	}
}

// cellsOf returns an object's row below the titles of its kind.
func cellsOf(object *fleetv1.Document, now time.Time) []cell {
	switch o := object.GetObject().(type) {
	case *fleetv1.Document_Cluster:
		return clusterCells(o.Cluster, now)
	case *fleetv1.Document_Repository:
		return repositoryCells(o.Repository, now)
	case *fleetv1.Document_User:
		spec := o.User.GetSpec()
		return []cell{plain(o.User.GetMetadata().GetName()), list(spec.GetGroups()), plain(spec.GetDescription())}
	case *fleetv1.Document_IdentityProvider:
		return providerCells(o.IdentityProvider)
	case *fleetv1.Document_TrustRule:
		return trustRuleCells(o.TrustRule)
	case *fleetv1.Document_ConfigBackend:
		return backendCells(o.ConfigBackend, now)
	case *fleetv1.Document_ConfigSet:
		return configSetCells(o.ConfigSet)
	case *fleetv1.Document_GlobalService:
		return globalCells(o.GlobalService)
	case *fleetv1.Document_Notifier:
		return notifierCells(o.Notifier)
	case *fleetv1.Document_RolloutPolicy:
		return rolloutPolicyCells(o.RolloutPolicy, now)
	case *fleetv1.Document_FleetSource:
		return fleetSourceCells(o.FleetSource, now)
	case *fleetv1.Document_AccessBinding:
		return bindingCells(o.AccessBinding, now)
	case *fleetv1.Document_Project:
		return projectCells(o.Project)
	case *fleetv1.Document_Role:
		return roleCells(o.Role)
	default:
		return serviceCells(object.GetService(), now)
	}
}

// projectCells shows what a project holds, and its quotas.
func projectCells(p *fleetv1.Project) []cell {
	status, quotas := p.GetStatus(), p.GetSpec().GetQuotas()
	return []cell{
		plain(p.GetMetadata().GetName()), plain(fmt.Sprint(status.GetClusters())), within(status.GetRepositories(), quotas.GetRepositories(), quotas != nil && quotas.Repositories != nil),
		within(status.GetServices(), quotas.GetServices(), quotas != nil && quotas.Services != nil), bundleBytes(status, quotas), plain(p.GetSpec().GetDescription()),
	}
}

// within shows a number, and the quota that it counts against.
func within(number, quota int32, hasQuota bool) cell {
	if !hasQuota {
		return plain(fmt.Sprint(number))
	}
	return plain(fmt.Sprintf("%d of %d", number, quota))
}

// bundleBytes shows what the bundles of a project take, and red what exceeds a quota that was lowered.
func bundleBytes(status *fleetv1.ProjectStatus, quotas *fleetv1.ProjectQuotas) cell {
	used := memory(status.GetBundleBytes())
	switch {
	case quotas == nil || quotas.BundleBytes == nil:
		return plain(used)
	case status.GetBundleBytes() > quotas.GetBundleBytes():
		return cell{used + " of " + memory(quotas.GetBundleBytes()), red}
	}
	return plain(used + " of " + memory(quotas.GetBundleBytes()))
}

func clusterCells(c *fleetv1.Cluster, now time.Time) []cell {
	status := c.GetStatus()
	report := status.GetReport()
	return []cell{
		plain(c.GetMetadata().GetName()), agent(status), plain(report.GetAgentVersion()), plain(report.GetKubernetesVersion()),
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

func repositoryCells(r *fleetv1.Repository, now time.Time) []cell {
	status := r.GetStatus()
	return []cell{
		plain(r.GetMetadata().GetName()), stateCell(status.GetPhase()), plain(fmt.Sprint(status.GetRefCount())),
		ago(status.GetFreshAt(), now), plain(r.GetSpec().GetUrl()), worry(status),
	}
}

// worry shows the problem of a repository or, without one, how many notices there are to read.
func worry(status *gitcachev1.RepositoryState) cell {
	switch n := len(status.GetNotices()); {
	case status.GetProblem() != nil || n == 0:
		return problem(status.GetProblem())
	case n == 1:
		return cell{"1 notice", faint}
	default:
		return cell{fmt.Sprintf("%d notices", n), faint}
	}
}

// notices returns what people should know of a repository although nothing has failed.
func notices(style Style, status *gitcachev1.RepositoryState) string {
	var out strings.Builder
	for _, notice := range status.GetNotices() {
		fmt.Fprintf(&out, "\n%s %s\n", style.Warn("Notice:"), oneLine(notice))
	}
	return out.String()
}

func serviceCells(s *fleetv1.Service, now time.Time) []cell {
	status := s.GetStatus()
	counts := status.GetReport().GetCounts()
	return []cell{
		plain(s.GetMetadata().GetName()), plain(s.GetSpec().GetCluster()), stateCell(status.GetPhase()), yes(status.GetSynced()),
		plain(delivery.Versions(status)), ratio(counts.GetHealthy(), counts.GetTotal()), ago(status.GetReport().GetPhaseSince(), now),
		concern(status, now),
	}
}

// concern shows the problem of a service or, without one, the test that it waits for, or that it is pinned.
func concern(status *fleetv1.ServiceStatus, now time.Time) cell {
	running := status.GetReport().GetRunningTest()
	switch pinned := status.GetHold().GetPinnedRevision(); {
	case status.GetProblem() != nil:
		return problem(status.GetProblem())
	case running == nil && pinned > 0:
		return cell{oneLine(fmt.Sprintf("pinned to revision %d by %s", pinned, status.GetHold().GetPinnedBy())), yellow}
	case running == nil:
		return cell{}
	}
	text := fmt.Sprintf("waits for test %s, for %s", objectName(running.GetRef()), span(now.Sub(running.GetStartedAt().AsTime())))
	if message := running.GetMessage(); message != "" {
		text += ": " + message
	}
	return cell{text: oneLine(text)}
}

// stateCell formats a state like Kubernetes, such as "Healthy", in the colour of its meaning. A state
// that is neither good, bad nor on its way has none.
func stateCell(state protoreflect.Enum) cell {
	name := document.EnumName(state)
	c := cell{}
	switch name {
	case "unspecified":
		name = "unknown"
	case "healthy", "ready":
		c.color = green
	case "failed", "degraded", "missing":
		c.color = red
	case "pending", "syncing", "progressing", "terminating", "stale", "cloning":
		c.color = yellow
	case "superseded":
		c.color = faint
	}
	c.text = strings.ToUpper(name[:1]) + name[1:]
	return c
}

func yes(is bool) cell {
	if is {
		return cell{text: "yes"}
	}
	return cell{text: "no"}
}

func ratio(part, all int32) cell {
	if all == 0 {
		return plain("")
	}
	return plain(fmt.Sprintf("%d/%d", part, all))
}

// problem formats a problem in one line, the reason first.
func problem(p *typev1.Problem) cell {
	if p == nil {
		return cell{}
	}
	return cell{text: strings.Join(strings.Fields(document.EnumName(p.GetReason())+": "+p.GetMessage()), " ")}
}

func ago(at *timestamppb.Timestamp, now time.Time) cell {
	if at == nil {
		return plain("")
	}
	return plain(span(now.Sub(at.AsTime())) + " ago")
}

// span formats a duration in its largest unit: "45s", "12m", "3h", "9d".
func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	}
}
