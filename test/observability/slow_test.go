// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package observability

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// drill has series with which an alert fires at a time, and others just below its bound.
type drill struct {
	alert, at    string
	fires, below map[string]string
}

// outcomes are deliveries at a constant pace, of which a number in a thousand fails.
func outcomes(perMille int) map[string]string {
	return map[string]string{
		`leat_delivery_outcomes_total{outcome="healthy"}`: fmt.Sprintf("0+%dx500", 1000-perMille),
		`leat_delivery_outcomes_total{outcome="failed"}`:  fmt.Sprintf("0+%dx500", perMille),
	}
}

// late are healthy deliveries, of which a number in a thousand takes longer than five minutes. The bound
// is in the text of Prometheus 3.
func late(perMille int) map[string]string {
	return map[string]string{
		`leat_delivery_outcomes_total{outcome="healthy"}`:                                 "0+1000x200",
		`leat_delivery_outcomes_total{outcome="failed"}`:                                  "0x200",
		`leat_delivery_duration_seconds_count{leat_delivery_stage="healthy"}`:             "0+1000x200",
		`leat_delivery_duration_seconds_bucket{leat_delivery_stage="healthy",le="300.0"}`: fmt.Sprintf("0+%dx200", 1000-perMille),
		`leat_delivery_duration_seconds_bucket{leat_delivery_stage="healthy",le="600.0"}`: "0+1000x200",
		`leat_delivery_duration_seconds_bucket{leat_delivery_stage="applied",le="300.0"}`: "0+1000x200",
	}
}

// few are deliveries that all fail, too few for a share to mean anything.
func few(n string) map[string]string {
	return map[string]string{
		`leat_delivery_outcomes_total{outcome="healthy"}`: "0x200", `leat_delivery_outcomes_total{outcome="failed"}`: n,
	}
}

func one(series, fires, below string) (map[string]string, map[string]string) {
	return map[string]string{series: fires}, map[string]string{series: below}
}

func phases(failed, healthy string) map[string]string {
	return map[string]string{
		`leat_fleet_services{instance="a",phase="failed"}`: failed, `leat_fleet_services{instance="a",phase="healthy"}`: healthy,
		`leat_fleet_services{instance="b",phase="failed"}`: failed, `leat_fleet_services{instance="b",phase="healthy"}`: healthy,
	}
}

func clusters(away, connected string) map[string]string {
	return map[string]string{
		`leat_fleet_clusters{instance="a",state="away"}`: away, `leat_fleet_clusters{instance="a",state="connected"}`: connected,
		`leat_fleet_clusters{instance="a",state="unenrolled"}`: "1000x60",
	}
}

func mirrors(overdue, age, followers string) map[string]string {
	return map[string]string{
		`leat_mirror_overdue{instance="a",leat_mirror_role="owner"}`:              overdue,
		`leat_mirror_overdue{instance="b",leat_mirror_role="follower"}`:           followers,
		`leat_mirror_staleness_seconds{instance="a",leat_mirror_role="owner"}`:    age,
		`leat_mirror_staleness_seconds{instance="b",leat_mirror_role="follower"}`: "90000x60",
	}
}

func stored(used string) map[string]string {
	return map[string]string{
		`leat_mirror_disk_usage_bytes{instance="a"}`: used, `leat_mirror_disk_limit_bytes{instance="a"}`: "100x60",
		`leat_mirror_disk_usage_bytes{instance="unbounded"}`: "1000x60", `leat_mirror_disk_limit_bytes{instance="unbounded"}`: "0x60",
	}
}

func bounded(used string) map[string]string {
	return map[string]string{`leat_cas_usage_bytes{instance="a"}`: used, `leat_cas_limit_bytes{instance="a"}`: "100x60"}
}

// free are disks of which the small one has 2.5 % of its size, and the large one half a gibibyte, as the bound.
func free(small, large string) map[string]string {
	return map[string]string{
		`leat_disk_free_bytes{instance="small"}`: small, `leat_disk_size_bytes{instance="small"}`: "1000x60",
		`leat_disk_free_bytes{instance="large"}`: large, `leat_disk_size_bytes{instance="large"}`: "1000000000000x60",
	}
}

func plans(within string) map[string]string {
	return map[string]string{
		`leat_plan_compute_duration_seconds_bucket{instance="a",le="5.0"}`:  within,
		`leat_plan_compute_duration_seconds_bucket{instance="a",le="10.0"}`: "0+100x60",
		`leat_plan_compute_duration_seconds_bucket{instance="a",le="+Inf"}`: "0+100x60",
	}
}

func rejected(why, pace string) map[string]string {
	return map[string]string{
		`leat_tunnel_request_rejected_total{error_type="` + why + `"}`:                pace,
		`leat_tunnel_request_duration_seconds_count{http_response_status_code="200"}`: "0+100x60",
	}
}

// target is a target of Prometheus, beside a replica of Leat that has the name leat.
func target(job, answers, connections string) map[string]string {
	return map[string]string{
		`up{job="` + job + `",instance="a"}`:                        answers,
		`leat_serve_connections_anonymous{job="leat",instance="a"}`: connections,
	}
}

// drills are at least one for each alert.
func drills() []drill {
	all := []drill{
		{"LeatDeliveriesMissObjectiveFast", "70m", outcomes(145), outcomes(143)},
		{"LeatDeliveriesMissObjectiveFast", "70m", late(145), late(143)},
		{"LeatDeliveriesMissObjectiveFast", "70m", few("0+0.2x200"), few("0+0.1x200")},
		{"LeatDeliveriesMissObjective", "400m", outcomes(61), outcomes(59)},
		{"LeatDeliveriesMissObjectiveSlowly", "480m", outcomes(11), outcomes(9)},
		{"LeatServicesFail", "20m", phases("11x60", "89x60"), phases("10x60", "90x60")},
		{"LeatClustersAway", "15m", clusters("3x60", "97x60"), clusters("2x60", "98x60")},
		{"LeatManyClustersAway", "10m", clusters("21x60", "79x60"), clusters("20x60", "80x60")},
		{"LeatMirrorsOverdue", "20m", mirrors("1x60", "9x60", "0x60"), mirrors("0x60", "9x60", "1x60")},
		{"LeatMirrorStale", "10m", mirrors("1x60", "21601x60", "0x60"), mirrors("1x60", "21600x60", "0x60")},
		{"LeatMirrorStale", "10m", mirrors("1x60", "21601x60", "0x60"), mirrors("0x60", "21601x60", "1x60")},
		{"LeatMirrorDiskNearlyFull", "20m", stored("91x60"), stored("90x60")},
		{"LeatBundleDiskNearlyFull", "20m", bounded("96x60"), bounded("95x60")},
		{"LeatDiskFull", "10m", free("24x60", "536870912x60"), free("25x60", "536870912x60")},
		{"LeatDiskFull", "10m", free("25x60", "536870911x60"), free("25x60", "536870912x60")},
		{"LeatPlansSlow", "30m", plans("0+98x60"), plans("0+99.5x60")},
		{"LeatReplicaSilent", "30m", target("leat", "1x10 0x50", "1x10 _x50"), target("other", "1x10 0x50", "1x10 _x50")},
		{"LeatTunnelFailsRequests", "20m", rejected("AGENT_OFFLINE", "0+11x60"), rejected("AGENT_OFFLINE", "0+9x60")},
		{"LeatTunnelFailsRequests", "20m", rejected("INTERNAL", "0+11x60"), rejected("ACCESS_DENIED", "0+90x60")},
	}
	for _, d := range []struct{ alert, at, series, fires, below string }{
		{"LeatDependencyUnreachable", "10m", `leat_dependency_unreachable{instance="a",leat_dependency_name="redis"}`, "1x60", "0x60"},
		{"LeatClockOff", "10m", `leat_clock_time_seconds{instance="a"}`, "21+60x60", "20+60x60"},
		{"LeatClockOff", "10m", `leat_clock_time_seconds{instance="a"}`, "-21+60x60", "-20+60x60"},
		{"LeatCertificateEndsSoon", "20m", `leat_serve_certificate_remaining_seconds{instance="a"}`, "1209599x60", "1209600x60"},
		{"LeatCertificateEnds", "10m", `leat_serve_certificate_remaining_seconds{instance="a"}`, "-1x60", "259200x60"},
		{"LeatRolloutHalted", "10m", `leat_distributor_rollout_runs{state="halted"}`, "1x60", "0x60"},
		{"LeatWebhooksRefused", "30m", `leat_webhook_received_total{leat_webhook_provider="github",leat_webhook_outcome="refused"}`, "0+0.7x60", "0+0.6x60"},
		{"LeatTunnelReplicasLost", "50m", `leat_tunnel_replica_count{instance="a"}`, "3x30 2x30", "2x20 3x2 2x40"},
		{"LeatNotificationsDead", "20m", `leat_notifications_attempts_total{sink="email",outcome="dead"}`, "0x10 1x40", "0x60"},
		{"LeatAuditRecordsLost", "20m", `leat_audit_dropped_total{instance="a",output="file",reason="timeout"}`, "0x10 1x40", "0x60"},
		{"LeatBreakGlassUsed", "20m", `leat_distributor_break_glass_calls_total{instance="a"}`, "0x10 1x40", "0x60"},
		{"LeatSealUnreadable", "20m", `leat_seal_unreadable{instance="a"}`, "1x60", "0x60"},
		{"LeatTokenExchangesRefused", "20m", `leat_distributor_token_exchanges_total{outcome="refused"}`, "0+2.1x60", "0+2x60"},
	} {
		fires, below := one(d.series, d.fires, d.below)
		all = append(all, drill{d.alert, d.at, fires, below})
	}
	return all
}

// promtool returns the program, which is built beside Prometheus.
func promtool(t *testing.T) string {
	t.Helper()
	var failures strings.Builder
	build := exec.CommandContext(t.Context(), filepath.Join(top, "tools", "prometheus", "build.sh"))
	build.Stderr = &failures
	path, err := build.Output()
	if err != nil {
		t.Fatalf("build Prometheus: %v\n%s", err, failures.String())
	}
	return filepath.Join(filepath.Dir(strings.TrimSpace(string(path))), "promtool")
}

// write writes a value as YAML into a folder of the test's own.
func write(t *testing.T, name string, content any) string {
	t.Helper()
	text, err := yaml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestSlowPromtool has Prometheus's own tool read every expression, and fires each alert.
func TestSlowPromtool(t *testing.T) {
	t.Parallel()
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: Prometheus is left to `make test-all`")
	}
	program := promtool(t)
	rules, err := filepath.Abs(filepath.Join(top, rulesFile))
	if err != nil {
		t.Fatal(err)
	}
	run(t, program, "check", "rules", "--lint-fatal", rules)

	queries := group{Name: "dashboards"}
	for i, expr := range slices.Sorted(maps.Values(expressions())) {
		expr = strings.NewReplacer("SELECTED", `instance=~".*"`, "$__rate_interval", "1m").Replace(expr)
		queries.Rules = append(queries.Rules, rule{Record: fmt.Sprintf("query:%d", i), Expr: expr})
	}
	run(t, program, "check", "rules", "--lint=none", write(t, "queries.yaml", ruleFile{Groups: []group{queries}}))

	type series struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	}
	type sample struct {
		Labels string  `yaml:"labels"`
		Value  float64 `yaml:"value"`
	}
	type expectation struct {
		Expr    string   `yaml:"expr"`
		At      string   `yaml:"eval_time"`
		Samples []sample `yaml:"exp_samples"`
	}
	type unit struct {
		Name     string        `yaml:"name"`
		Interval string        `yaml:"interval"`
		Input    []series      `yaml:"input_series"`
		Expected []expectation `yaml:"promql_expr_test"`
	}
	var units []unit
	fired := map[string]bool{}
	for _, d := range drills() {
		fired[d.alert] = true
		for what, input := range map[string]map[string]string{"fires": d.fires, "below": d.below} {
			u := unit{Name: d.alert + " " + what, Interval: "1m"}
			for _, name := range slices.Sorted(maps.Keys(input)) {
				u.Input = append(u.Input, series{name, input[name]})
			}
			e := expectation{Expr: `count(ALERTS{alertname="` + d.alert + `",alertstate="firing"})`, At: d.at}
			if what == "fires" {
				e.Samples = []sample{{"{}", 1}}
			}
			u.Expected = []expectation{e}
			units = append(units, u)
		}
	}
	var names []string
	for _, a := range allAlerts() {
		names = append(names, a.name)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(names)), slices.Sorted(maps.Keys(fired))); diff != "" {
		t.Errorf("alerts without a drill (-alerts +drills):\n%s", diff)
	}
	run(t, program, "test", "rules", write(t, "drills.yaml", map[string]any{
		"rule_files": []string{rules}, "evaluation_interval": "1m", "tests": units,
	}))
}
