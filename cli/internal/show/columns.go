// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leatdev/leat/cli/internal/delivery"
	"github.com/leatdev/leat/cli/internal/document"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

func columnsOf(kind string) []column {
	switch kind {
	case "Cluster":
		return clusterColumns()
	case "Repository":
		return repositoryColumns()
	case "User":
		return userColumns()
	case "AccessBinding":
		return bindingColumns()
	default:
		return serviceColumns()
	}
}

func clusterColumns() []column {
	return []column{
		{"NAME", func(o *fleetv1.Document, _ time.Time) cell { return plain(o.GetCluster().GetMetadata().GetName()) }},
		{"AGENT", func(o *fleetv1.Document, _ time.Time) cell { return agent(o.GetCluster().GetStatus()) }},
		{"VERSION", func(o *fleetv1.Document, _ time.Time) cell {
			return plain(o.GetCluster().GetStatus().GetReport().GetAgentVersion())
		}},
		{"KUBERNETES", func(o *fleetv1.Document, _ time.Time) cell {
			return plain(o.GetCluster().GetStatus().GetReport().GetKubernetesVersion())
		}},
		{"NODES", func(o *fleetv1.Document, _ time.Time) cell { return nodes(o.GetCluster().GetStatus().GetReport()) }},
		{"SERVICES", func(o *fleetv1.Document, _ time.Time) cell {
			status := o.GetCluster().GetStatus()
			return ratio(status.GetServicesHealthy(), status.GetServices())
		}},
		{"LAST SEEN", func(o *fleetv1.Document, now time.Time) cell {
			return ago(o.GetCluster().GetStatus().GetLastSeenAt(), now)
		}},
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

func repositoryColumns() []column {
	return []column{
		{"NAME", func(o *fleetv1.Document, _ time.Time) cell {
			return plain(o.GetRepository().GetMetadata().GetName())
		}},
		{"PHASE", func(o *fleetv1.Document, _ time.Time) cell {
			return repositoryPhase(o.GetRepository().GetStatus().GetPhase())
		}},
		{"REFS", func(o *fleetv1.Document, _ time.Time) cell {
			return plain(fmt.Sprint(o.GetRepository().GetStatus().GetRefCount()))
		}},
		{"CHECKED", func(o *fleetv1.Document, now time.Time) cell {
			return ago(o.GetRepository().GetStatus().GetFreshAt(), now)
		}},
		{"URL", func(o *fleetv1.Document, _ time.Time) cell { return plain(o.GetRepository().GetSpec().GetUrl()) }},
		{"MESSAGE", func(o *fleetv1.Document, _ time.Time) cell {
			return problem(o.GetRepository().GetStatus().GetProblem())
		}},
	}
}

func repositoryPhase(phase gitcachev1.RepositoryPhase) cell {
	c := phaseCell(document.EnumName(phase))
	switch phase {
	case gitcachev1.RepositoryPhase_REPOSITORY_PHASE_READY:
		c.color = green
	case gitcachev1.RepositoryPhase_REPOSITORY_PHASE_FAILED:
		c.color = red
	case gitcachev1.RepositoryPhase_REPOSITORY_PHASE_STALE, gitcachev1.RepositoryPhase_REPOSITORY_PHASE_CLONING:
		c.color = yellow
	case gitcachev1.RepositoryPhase_REPOSITORY_PHASE_SUSPENDED, gitcachev1.RepositoryPhase_REPOSITORY_PHASE_UNSPECIFIED:
	}
	return c
}

func serviceColumns() []column {
	return []column{
		{"NAME", func(o *fleetv1.Document, _ time.Time) cell { return plain(o.GetService().GetMetadata().GetName()) }},
		{"CLUSTER", func(o *fleetv1.Document, _ time.Time) cell { return plain(o.GetService().GetSpec().GetCluster()) }},
		{"PHASE", func(o *fleetv1.Document, _ time.Time) cell {
			return servicePhase(o.GetService().GetStatus().GetPhase())
		}},
		{"SYNCED", func(o *fleetv1.Document, _ time.Time) cell { return yes(o.GetService().GetStatus().GetSynced()) }},
		{"COMMIT", func(o *fleetv1.Document, _ time.Time) cell {
			return plain(delivery.Commits(o.GetService().GetStatus()))
		}},
		{"OBJECTS", func(o *fleetv1.Document, _ time.Time) cell {
			counts := o.GetService().GetStatus().GetReport().GetCounts()
			return ratio(counts.GetHealthy(), counts.GetTotal())
		}},
		{"SINCE", func(o *fleetv1.Document, now time.Time) cell {
			return ago(o.GetService().GetStatus().GetReport().GetPhaseSince(), now)
		}},
		{"MESSAGE", func(o *fleetv1.Document, _ time.Time) cell { return problem(o.GetService().GetStatus().GetProblem()) }},
	}
}

func servicePhase(phase typev1.ServicePhase) cell {
	c := phaseCell(document.EnumName(phase))
	switch phase {
	case typev1.ServicePhase_SERVICE_PHASE_HEALTHY:
		c.color = green
	case typev1.ServicePhase_SERVICE_PHASE_FAILED, typev1.ServicePhase_SERVICE_PHASE_DEGRADED:
		c.color = red
	case typev1.ServicePhase_SERVICE_PHASE_PENDING, typev1.ServicePhase_SERVICE_PHASE_SYNCING,
		typev1.ServicePhase_SERVICE_PHASE_PROGRESSING:
		c.color = yellow
	case typev1.ServicePhase_SERVICE_PHASE_PAUSED, typev1.ServicePhase_SERVICE_PHASE_UNSPECIFIED:
	}
	return c
}

// phaseCell formats phases like Kubernetes: "Healthy".
func phaseCell(name string) cell {
	if name == "unspecified" {
		name = "unknown"
	}
	return cell{text: strings.ToUpper(name[:1]) + name[1:]}
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
	text := strings.Join(strings.Fields(document.EnumName(p.GetReason())+": "+p.GetMessage()), " ")
	return cell{text: text}
}

func ago(at *timestamppb.Timestamp, now time.Time) cell {
	if at == nil {
		return plain("")
	}
	return plain(Span(now.Sub(at.AsTime())) + " ago")
}

// Span formats a duration in its largest unit: "45s", "12m", "3h", "9d".
func Span(d time.Duration) string {
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
