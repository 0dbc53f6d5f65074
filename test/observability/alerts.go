// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package observability

import "slices"

// allAlerts are all alerts, in the order of the page of runbooks.
func allAlerts() []alert {
	return slices.Concat(deliveryAlerts(), contentAlerts(), replicaAlerts(), hubAlerts(), securityAlerts())
}

// away is the share of the clusters with an agent that no replica hears from. Each replica counts all.
const away = `max(leat_fleet_clusters{state="away"})
/
(max(leat_fleet_clusters{state="away"}) + max(leat_fleet_clusters{state="connected"}))`

func deliveryAlerts() []alert {
	return []alert{
		{
			name: "LeatDeliveriesMissObjectiveFast", severity: critical, lasts: "2m", expr: burns(14.4, "1h", "5m"),
			summary:     "{{ $value | humanizePercentage }} of the last hour's deliveries failed or took longer than five minutes.",
			description: "The error budget of a month is used up in two days. Look at the services that fail: leat get services -A --phase Failed,Degraded.",
		},
		{
			name: "LeatDeliveriesMissObjective", severity: critical, lasts: "15m", expr: burns(6, "6h", "30m"),
			summary:     "{{ $value | humanizePercentage }} of the deliveries of six hours failed or took longer than five minutes.",
			description: "The error budget of a month is used up in five days. Look at the services that fail: leat get services -A --phase Failed,Degraded.",
		},
		{
			name: "LeatDeliveriesMissObjectiveSlowly", severity: warning, lasts: "1h", expr: burns(1, "3d", "6h"),
			summary:     "{{ $value | humanizePercentage }} of the deliveries of three days failed or took longer than five minutes.",
			description: "The error budget of a month will be used up by its end. The dashboard Leat: delivery shows which stage is slow.",
		},
		{
			name: "LeatServicesFail", severity: warning, lasts: "15m",
			expr: `sum(max by (phase) (leat_fleet_services{phase=~"failed|degraded"}))
/
sum(max by (phase) (leat_fleet_services)) > 0.1`,
			summary:     "{{ $value | humanizePercentage }} of all services fail.",
			description: "Their latest content could not be applied, or is not healthy. Look for what they have in common: leat status.",
		},
		{
			name: "LeatClustersAway", severity: warning, lasts: "10m", expr: away + " > 0.02",
			summary:     "{{ $value | humanizePercentage }} of the clusters with an agent are not connected.",
			description: "Their services run on, and get no changes. List them: leat get clusters -A --phase disconnected.",
		},
		{
			name: "LeatManyClustersAway", severity: critical, lasts: "5m", expr: away + " > 0.2",
			summary:     "{{ $value | humanizePercentage }} of the clusters with an agent are not connected.",
			description: "So many at once are away because of the hub or the network before it. Look at the hub's pods and its load balancer first.",
		},
		{
			name: "LeatRolloutHalted", severity: warning, lasts: "5m",
			expr:        `sum(leat_distributor_rollout_runs{state="halted"}) > 0`,
			summary:     "{{ $value }} rollouts have halted, and wait for a person.",
			description: "leat status names them, and leat rollout status NAME says why.",
		},
	}
}

func contentAlerts() []alert {
	return []alert{
		{
			name: "LeatMirrorsOverdue", severity: warning, lasts: "15m",
			expr:        `sum(leat_mirror_overdue{leat_mirror_role="owner"}) > 0`,
			summary:     "{{ $value }} mirrors are older than their poll interval explains.",
			description: "New commits of these repositories do not arrive. See why: leat get repositories -A.",
		},
		{
			name: "LeatMirrorStale", severity: critical, lasts: "5m",
			expr: `max(leat_mirror_staleness_seconds{leat_mirror_role="owner"}) > 21600
and
sum(leat_mirror_overdue{leat_mirror_role="owner"}) > 0`,
			summary:     "A mirror last equalled its upstream {{ $value | humanizeDuration }} ago.",
			description: "No commit of its repository was delivered since. See why: leat get repositories -A.",
		},
		{
			name: "LeatWebhooksRefused", severity: warning,
			expr:        `sum by (leat_webhook_provider) (increase(leat_webhook_received_total{leat_webhook_outcome="refused"}[15m])) > 10`,
			summary:     "{{ $value | humanize }} webhooks of {{ $labels.leat_webhook_provider }} were refused in 15 minutes.",
			description: "No secret of a repository proves them, so pushes arrive with the next poll. Compare the secrets: leat webhooks repository/NAME.",
		},
		{
			name: "LeatMirrorDiskNearlyFull", severity: warning, lasts: "15m",
			expr: `max by (instance) (leat_mirror_disk_usage_bytes)
/
(max by (instance) (leat_mirror_disk_limit_bytes) > 0) > 0.9`,
			summary:     "The mirrors of {{ $labels.instance }} take {{ $value | humanizePercentage }} of their limit.",
			description: "When it is full, new repositories are not mirrored. Give gitcache more disk, or more replicas.",
		},
		{
			name: "LeatBundleDiskNearlyFull", severity: warning, lasts: "15m",
			expr: `max by (instance) (leat_cas_usage_bytes)
/
max by (instance) (leat_cas_limit_bytes) > 0.95`,
			summary:     "The bundles of {{ $labels.instance }} take {{ $value | humanizePercentage }} of their limit.",
			description: "Eviction begins at 90 %, so the remaining bundles are in use, and new ones will be refused with STORAGE_FULL. Raise the limit.",
		},
		{
			name: "LeatDiskFull", severity: critical, lasts: "5m",
			expr: `max by (instance) (leat_disk_free_bytes)
<
clamp_max(max by (instance) (leat_disk_size_bytes) * 0.025, 536870912)`,
			summary:     "The disk of {{ $labels.instance }} has only {{ $value | humanize1024 }}B free.",
			description: "The cache of bundles gives room back at twice that, so others have filled the disk. What needs room fails with STORAGE_FULL: give it more.",
		},
		{
			name: "LeatPlansSlow", severity: warning, lasts: "15m",
			expr:        `histogram_quantile(0.99, sum by (instance, le) (rate(leat_plan_compute_duration_seconds_bucket[5m]))) > 5`,
			summary:     "The plans of {{ $labels.instance }} follow a change only after {{ $value | humanizeDuration }}.",
			description: "Every delivery waits for that. Look at the processor of the distributor, and at how many clusters a change touches.",
		},
	}
}

// replicaAlerts are about the replicas of the hub and what each needs. A target that had the gauge of
// strangers' connections within a week is a replica.
func replicaAlerts() []alert {
	return []alert{
		{
			name: "LeatReplicaSilent", severity: warning, lasts: "5m",
			expr: `up == 0
and on (job, instance)
last_over_time(leat_serve_connections_anonymous[1w])`,
			summary:     "The replica {{ $labels.instance }} does not answer Prometheus.",
			description: "It is frozen, down, or cut off. Others do its work as long as there are others: kubectl -n leat get pods -o wide.",
		},
		{
			name: "LeatDependencyUnreachable", severity: critical, lasts: "5m",
			expr:        `max by (instance, leat_dependency_name) (leat_dependency_unreachable) > 0`,
			summary:     "{{ $labels.instance }} does not reach its {{ $labels.leat_dependency_name }}.",
			description: "Clusters keep what they have. Without Redis no new commit arrives, and without the database nobody can change anything. Bring it back.",
		},
		{
			name: "LeatClockOff", severity: warning, lasts: "5m",
			expr:        `max by (instance) (abs(leat_clock_time_seconds - timestamp(leat_clock_time_seconds))) > 20`,
			summary:     "The clock of {{ $labels.instance }} differs by {{ $value | humanizeDuration }} from Prometheus's.",
			description: "From 30 s on, others refuse its tokens, and it refuses theirs. Look at the time service of its node.",
		},
		{
			name: "LeatCertificateEndsSoon", severity: warning, lasts: "15m",
			expr:        `min by (instance) (leat_serve_certificate_remaining_seconds) < 1209600`,
			summary:     "The certificate of {{ $labels.instance }} ends in {{ $value | humanizeDuration }}.",
			description: "Whatever renews it did not: kubectl -n leat get certificates,secrets. A renewed file is read without a restart.",
		},
		{
			name: "LeatCertificateEnds", severity: critical, lasts: "5m",
			expr:        `min by (instance) (leat_serve_certificate_remaining_seconds) < 259200`,
			summary:     "The certificate of {{ $labels.instance }} ends within three days, or has ended.",
			description: "Then agents and people cannot connect any more. Renew it now: a renewed file is read without a restart.",
		},
	}
}

func hubAlerts() []alert {
	return []alert{
		{
			name: "LeatTunnelReplicasLost", severity: warning, lasts: "10m",
			// One that was killed and starts again counts twice for a moment.
			expr:        `max(leat_tunnel_replica_count) < max(max_over_time(min_over_time(leat_tunnel_replica_count[5m])[2h:1m]))`,
			summary:     "Only {{ $value }} replicas of the tunnel live.",
			description: "There were more within two hours. Unless somebody scaled them down, look at the pods: kubectl -n leat get pods.",
		},
		{
			name: "LeatTunnelFailsRequests", severity: critical, lasts: "10m",
			expr: `sum(rate(leat_tunnel_request_rejected_total{error_type=~"AGENT_OFFLINE|CLUSTER_UNREACHABLE|DEPENDENCY_UNAVAILABLE|HUB_TOKEN_REFUSED|INTERNAL|SHUTTING_DOWN"}[5m]))
/
(sum(rate(leat_tunnel_request_duration_seconds_count[5m])) > 0.1) > 0.1`,
			summary:     "The hub cannot carry {{ $value | humanizePercentage }} of the requests to clusters.",
			description: "Refusals for want of rights are not among them. The dashboard Leat: tunnel shows the reasons.",
		},
		{
			name: "LeatNotificationsDead", severity: warning,
			expr:        `sum by (sink) (increase(leat_notifications_attempts_total{outcome="dead"}[30m])) > 0`,
			summary:     "Notifications by {{ $labels.sink }} were given up.",
			description: "A receiver refused them, or did not answer for a day. Read why: leat notifier dead-letters NAME.",
		},
	}
}

func securityAlerts() []alert {
	return []alert{
		{
			name: "LeatAuditRecordsLost", severity: critical,
			expr:        `sum by (instance, output, reason) (increase(leat_audit_dropped_total[15m])) > 0`,
			summary:     "{{ $labels.instance }} lost audit records: {{ $labels.reason }} at {{ $labels.output }}.",
			description: "The record of changes has a gap. Bring the output back first.",
		},
		{
			name: "LeatBreakGlassUsed", severity: info,
			expr:        `sum(increase(leat_distributor_break_glass_calls_total[15m])) > 0`,
			summary:     "Somebody uses the emergency user break-glass.",
			description: "Confirm that this person should, and read what they did: leat audit --by break-glass.",
		},
		{
			name: "LeatSealUnreadable", severity: critical, lasts: "10m",
			expr:        `max(leat_seal_unreadable) > 0`,
			summary:     "{{ $value }} stored secrets do not open with any key of the hub.",
			description: "A key that sealed them is missing. Keep every key that the hub still has: leat admin keys.",
		},
		{
			name: "LeatTokenExchangesRefused", severity: warning,
			expr:        `sum(increase(leat_distributor_token_exchanges_total{outcome="refused"}[10m])) > 20`,
			summary:     "{{ $value | humanize }} tokens of workloads were refused in 10 minutes.",
			description: "A pipeline has the wrong audience or rule, or somebody guesses. The audit log names the issuer and the subject.",
		},
	}
}
