// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package observability

import "slices"

// boards are all dashboards.
func boards() []board {
	return []board{
		fleetBoard(), deliveryBoard(), rolloutBoard(), securityBoard(),
		gitcacheBoard(), distributorBoard(), tunnelBoard(), agentBoard(),
	}
}

func fleetBoard() board {
	clusters := func(state string) []query {
		return []query{{state, `max(leat_fleet_clusters{SELECTED,state="` + state + `"})`}}
	}
	services := func(legend, phases string) []query {
		return []query{{legend, `sum(max by (phase) (leat_fleet_services{SELECTED,phase=~"` + phases + `"}))`}}
	}
	return board{
		name: "fleet", title: "fleet", instances: "leat_fleet_clusters",
		description: "Is the fleet well? Every replica of the distributor counts the whole fleet, so one replica suffices.",
		panels: []panel{
			{"Clusters connected", "Clusters whose agent is connected to any replica of the hub.", count, true, clusters("connected")},
			{"Clusters away", "Clusters with an agent that no replica hears from. Their services run on, and get no changes.", count, true, clusters("away")},
			{"Services healthy", "Services whose latest report is healthy.", count, true, services("healthy", "healthy")},
			{"Services failing", "Services that could not be applied, or whose objects are not well.", count, true, services("failing", "failed|degraded")},
			{"Clusters by connectivity", "An unenrolled cluster never had an agent.", count, false, most("leat_fleet_clusters", "state")},
			{"Services by phase", "The latest phase that agents reported; the last one, for clusters that are away.", count, false, most("leat_fleet_services", "phase")},
			{"Agents of each replica", "Plan streams that agents hold open. A replica without any while others have some is not reached.", count, false, sums("leat_agent_connected", "instance")},
			{"Objects in the catalog", "Clusters, repositories and services.", count, false, most("leat_fleet_objects", "kind")},
		},
	}
}

func deliveryBoard() board {
	return board{
		name: "delivery", title: "delivery", instances: "leat_delivery_outcomes_total",
		description: "Does content arrive in time? Durations are on the hub's clock, from the plan to the report.",
		panels: []panel{
			{
				"Healthy within five minutes", "Share of the last hour's deliveries that met the objective; those that newer content superseded do not count.", ratio, true,
				[]query{{"of the last hour", "1 - leat:delivery_errors:ratio_1h"}},
			},
			{"Error budget left", "Of the last three days: 1 when every delivery was in time, 0 when one in a hundred was not.", ratio, true, []query{{"of three days", "1 - leat:delivery_errors:ratio_3d / 0.01"}}},
			{"Deliveries in the last hour", "Deliveries that ended healthy or failed.", count, true, []query{{"ended", "leat:delivery_ended:increase_1h"}}},
			{"Services failing", "A delivery that fails counts when newer content ends it; until then the service is here.", count, true, []query{{"failing", `sum(max by (phase) (leat_fleet_services{SELECTED,phase=~"failed|degraded"}))`}}},
			{"How long until healthy?", "From the plan until the hub heard that everything is healthy.", seconds, false, quantiles("leat_delivery_duration_seconds", `,leat_delivery_stage="healthy"`)},
			{"How long until applied?", "From the plan until the hub heard that everything is applied.", seconds, false, quantiles("leat_delivery_duration_seconds", `,leat_delivery_stage="applied"`)},
			{"How do deliveries end?", "Superseded: newer content came before this one was healthy.", perSecond, false, rates("leat_delivery_outcomes_total", "", "outcome")},
			{"How long do plans take to follow?", "From a change of the catalog or of content until the plans in memory have it.", seconds, false, quantiles("leat_plan_compute_duration_seconds", "")},
			{"How soon do requested fetches begin?", "From a webhook, or a person's request, until the owner of the mirror begins to fetch; at all replicas of gitcache.", seconds, false, []query{
				{"p50", "histogram_quantile(0.5, sum by (le) (rate(leat_mirror_fetch_delay_seconds_bucket[$__rate_interval])))"},
				{"p99", "histogram_quantile(0.99, sum by (le) (rate(leat_mirror_fetch_delay_seconds_bucket[$__rate_interval])))"},
			}},
			{"For how long does the first of each queue wait?", "Repositories by what they wait for, bundles to be built, changes for plans to follow, sources to be asked for, and messages; at all replicas.", seconds, false, []query{
				{"repositories: {{leat_queue}}", "max by (leat_queue) (leat_mirror_waiting_age_seconds)"},
				{"bundles", "max(leat_bundle_waiting_age_seconds)"},
				{"changes", "max(leat_plan_waiting_age_seconds)"},
				{"sources", "max(leat_source_waiting_age_seconds)"},
				{"messages", "max(leat_notifications_waiting_age_seconds)"},
			}},
		},
	}
}

func rolloutBoard() board {
	return board{
		name: "rollouts", title: "rollouts", instances: "leat_distributor_rollout_decisions_total",
		description: "Do rollouts move? One replica drives all of them.",
		panels: []panel{
			{"Rollouts by state", "The latest rollout of each policy. A halted one waits for a person.", count, false, sums("leat_distributor_rollout_runs", "state")},
			{"Decisions", "Admissions into a wave, withdrawals, questions to people, halts and ends.", perSecond, false, rates("leat_distributor_rollout_decisions_total", "", "kind")},
			{"Global services that wait to be derived", "Late: it took longer than it should.", count, false, most("leat_globalservice_unfinished", "state")},
			{"Services by phase", "What a wave does to services shows here.", count, false, most("leat_fleet_services", "phase")},
		},
	}
}

func securityBoard() board {
	return board{
		name: "security", title: "security", instances: "leat_serve_connections_anonymous",
		description: "Does somebody try what they may not, and is the record of it whole?",
		panels: []panel{
			{"Break-glass calls", "Calls of the emergency user in the last hour.", count, true, []query{{"calls", "sum(increase(leat_distributor_break_glass_calls_total{SELECTED}[1h]))"}}},
			{"Audit records lost", "Records of the last day that no output took.", count, true, []query{{"records", "sum(increase(leat_audit_dropped_total{SELECTED}[1d]))"}}},
			{"Secrets that do not open", "Stored secrets that no sealing key of the hub opens.", count, true, []query{{"secrets", "max(leat_seal_unreadable{SELECTED})"}}},
			{"Sessions of people", "Sessions that live; each replica counts all.", count, true, []query{{"sessions", "sum(max by (client) (leat_signin_sessions{SELECTED}))"}}},
			{"Sign-ins", "Attempts that ended, by outcome.", perSecond, false, rates("leat_signin_attempts_total", "", "outcome")},
			{"Tokens of workloads", "A burst of refused ones is a pipeline with the wrong audience, or a person who guesses.", perSecond, false, rates("leat_distributor_token_exchanges_total", "", "outcome")},
			{"Requests to clusters that the hub refused", "By reason; docs/reference/errors.md says what to do about each.", requests, false, rates("leat_tunnel_request_rejected_total", "", "error_type")},
			{"Webhooks that nothing proves", "Refused: no secret of a repository proves the webhook.", perSecond, false, rates("leat_webhook_received_total", `,leat_webhook_outcome="refused"`, "leat_webhook_provider")},
			{"Connections of unauthenticated callers", "When there are too many, the oldest are closed.", count, false, sums("leat_serve_connections_anonymous", "instance")},
			{"Audit records that wait", "Bytes that an output has not taken.", bytesUnit, false, sums("leat_audit_queue_bytes", "instance", "output")},
		},
	}
}

// usage is what a store on disk holds, and its bound.
func usage(title, description, metric string) panel {
	return panel{title, description, bytesUnit, false, []query{
		{"{{instance}}", "max by (instance) (" + metric + "_usage_bytes{SELECTED})"},
		{"{{instance}} limit", "max by (instance) (" + metric + "_limit_bytes{SELECTED}) > 0"},
	}}
}

// process are the panels about the selected processes.
func process() []panel {
	return []panel{
		{"Memory", "Resident memory of the processes.", bytesUnit, false, []query{{"{{instance}}", "process_resident_memory_bytes{SELECTED}"}}},
		{"Goroutines", "A number that only grows is a leak.", count, false, []query{{"{{instance}}", "go_goroutines{SELECTED}"}}},
	}
}

func gitcacheBoard() board {
	return board{
		name: "gitcache", title: "gitcache", instances: "leat_mirror_packs",
		description: "Are mirrors fresh, and is there room for them?",
		panels: slices.Concat([]panel{
			{"How old is the stalest mirror?", "Time since it equalled its upstream; owners fetch, followers copy.", seconds, false, most("leat_mirror_staleness_seconds", "leat_mirror_role")},
			{"Mirrors overdue", "Mirrors that are older than their poll interval explains.", count, false, sums("leat_mirror_overdue", "leat_mirror_role")},
			{"Mirrors by phase", "Repositories that the replicas own.", count, false, sums("leat_mirror_owned", "leat_mirror_phase")},
			{"Repositories that wait", "For a turn to be fetched, cloned or copied.", count, false, sums("leat_mirror_waiting", "leat_queue")},
			{"How long do fetches take?", "Polls that found nothing new included.", seconds, false, quantiles("leat_mirror_fetch_duration_seconds", "")},
			{"Webhooks", "By what became of them.", perSecond, false, rates("leat_webhook_received_total", "", "leat_webhook_outcome")},
			{"How long do bundles take to build?", "From a mirror to a bundle.", seconds, false, quantiles("leat_bundle_build_duration_seconds", "")},
			{"Bytes from upstreams", "What fetches received.", bandwidth, false, rates("leat_mirror_fetch_received_bytes_total", "", "instance")},
			usage("Mirrors on disk", "Without a limit, the disk is the bound.", "leat_mirror_disk"),
			usage("Bundles on disk", "Eviction begins at nine tenths of the limit.", "leat_cas"),
		}, process()),
	}
}

func distributorBoard() board {
	return board{
		name: "distributor", title: "distributor", instances: "leat_plan_watchers",
		description: "Does the distributor keep up with its agents?",
		panels: slices.Concat([]panel{
			{"Plan streams", "Agents that wait for their next plan.", count, false, sums("leat_plan_watchers", "instance")},
			{"How long do plans take to follow?", "From a change of the catalog or of content until the plans in memory have it.", seconds, false, quantiles("leat_plan_compute_duration_seconds", "")},
			{"How much does one cluster ask for?", "Calls and downloads of one cluster in ten minutes; the quantiles are over clusters.", count, false, quantiles("leat_cluster_requests", "")},
			{"How much is one cluster sent?", "Bytes of bundles and deltas for one cluster in ten minutes; the quantiles are over clusters.", bytesUnit, false, quantiles("leat_cluster_sent_bytes", "")},
			{"Does the node's cache have the bundles?", "Stored: it has. Missing ones are fetched from gitcache.", perSecond, false, rates("leat_bundle_opened_total", "", "leat_bundle_result")},
			{"Bundles fetched into the cache", "With the reason when that failed.", perSecond, false, rates("leat_bundle_fill_total", "", "error_type")},
			{"Notifications", "Dead: given up. leat notifier resend sends them again.", perSecond, false, rates("leat_notifications_attempts_total", "", "outcome")},
			usage("Bundles on disk", "Eviction begins at nine tenths of the limit, and never takes a bundle of a plan.", "leat_cas"),
		}, process()),
	}
}

func tunnelBoard() board {
	return board{
		name: "tunnel", title: "tunnel", instances: "leat_tunnel_stream_active",
		description: "Do people and programs reach their clusters?",
		panels: []panel{
			{"Agents' connections", "By how they were made: upgrade, websocket, connect. A replica without any while others have some is not reached by agents.", count, false, sums("leat_tunnel_session_active", "transport")},
			{"Requests under way", "Requests to clusters on the replica's streams. Viewers that share a watch count once.", count, false, sums("leat_tunnel_stream_active", "instance")},
			{"Requests by status", "Requests that end without a watch, in a second.", requests, false, rates("leat_tunnel_request_duration_seconds_count", `,endless="false"`, "http_response_status_code")},
			{"How long do requests take?", "Requests that end without a watch, cluster included.", seconds, false, quantiles("leat_tunnel_request_duration_seconds", `,endless="false"`)},
			{"What does the hub add?", "Time in which the hub has a request to itself: before it goes to the agent, and before the answer goes to the caller.", seconds, false, quantiles("leat_tunnel_added_latency_seconds", "", "phase")},
			{"Answers of the hub's own", "Refusals and failures by reason; docs/reference/errors.md says what to do.", requests, false, rates("leat_tunnel_request_rejected_total", "", "error_type", "origin")},
			{"Bytes", "Bodies of requests (receive) and answers (transmit).", bandwidth, false, rates("leat_tunnel_transferred_bytes_total", "", "network_io_direction")},
			{"Quotas used up", "People and clusters who get 429 until their window frees enough.", count, false, append(
				sums("leat_tunnel_quota_exceeded", "scope"), query{"counted", "sum(leat_tunnel_quota_accounts{SELECTED})"})},
			{"Shared watches", "Viewers, and the watches of clusters that serve them.", count, false, []query{
				{"viewers", "sum(leat_tunnel_watch_viewers{SELECTED})"}, {"watches of clusters", "sum(leat_tunnel_watch_upstreams{SELECTED})"},
			}},
			{"Watches spared, and viewers that fell behind", "A viewer that falls behind is ended and watches again; many of them mean slow clients or too little memory for histories.", perSecond, false, []query{
				{"spared", "sum(rate(leat_tunnel_watch_shared_total{SELECTED}[$__rate_interval]))"}, {"fell behind", "sum(rate(leat_tunnel_watch_lagged_total{SELECTED}[$__rate_interval]))"},
			}},
			{"Memory", "Resident memory of the process, and the part of the histories of shared watches.", bytesUnit, false, []query{
				{"{{instance}}", "process_resident_memory_bytes{SELECTED}"}, {"{{instance}} histories", "leat_tunnel_watch_usage_bytes{SELECTED}"},
			}},
			process()[1],
		},
	}
}

func agentBoard() board {
	return board{
		name: "agents", title: "agents", instances: "leat_uplink_requests_active",
		description: "Where does the time of a run go? For agents that this Prometheus scrapes.",
		panels: slices.Concat([]panel{
			{"Runs", "Runs of services, by outcome.", perSecond, false, rates("leat_reconcile_duration_seconds_count", `,leat_reconcile_stage="run"`, "outcome")},
			{"Why do runs fail?", "By reason; docs/reference/errors.md says what to do.", perSecond, false, rates("leat_reconcile_duration_seconds_count", `,leat_reconcile_stage="run",outcome="failed"`, "error_type")},
			{"How long do runs take?", "From the begin of a run to its end, waits included.", seconds, false, quantiles("leat_reconcile_duration_seconds", `,leat_reconcile_stage="run"`)},
			{"Where does the time go?", "By stage. Wait: for health, hooks, and objects that go.", ratio, false, []query{{
				"{{leat_reconcile_stage}}",
				`sum by (leat_reconcile_stage) (rate(leat_reconcile_duration_seconds_sum{SELECTED,leat_reconcile_stage!="run"}[$__rate_interval]))` +
					` / ignoring (leat_reconcile_stage) group_left sum(rate(leat_reconcile_duration_seconds_sum{SELECTED,leat_reconcile_stage="run"}[$__rate_interval]))`,
			}}},
			{"Downloads of bundles", "Whole, by a delta, resumed, or damaged.", perSecond, false, rates("leat_bundle_download_total", "", "leat_download_result")},
			{"What did fingerprints spare?", "Objects that were sent to the API server, and those of which nothing differed.", perSecond, false, rates("leat_reconcile_objects_total", "", "leat_object_result")},
			{"What did renderers remember?", "Outputs that were rendered, and those of content that was rendered before.", perSecond, false, rates("leat_render_outputs_total", "", "leat_render_result")},
			{"Requests of people", "Active ones, by the kind of connection that they use.", count, false, sums("leat_uplink_requests_active", "leat_connection_kind")},
		}, process()),
	}
}
