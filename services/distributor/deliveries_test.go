// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/services/distributor"
)

// TestMetricsOfDeliveries has an agent report a delivery, and finds it at /metrics once.
func TestMetricsOfDeliveries(t *testing.T) {
	t.Parallel()
	internal, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := startHub(t, func(c *distributor.Config) { c.Serve.InternalListener = internal })
	h.demo(t, newFolder(t, "c1", "one"))
	h.apply(t, clusterDocument("two"))
	agent := h.enrol(t, "one")
	uid := h.waitService(t, "app", func(*fleetv1.Service) bool { return true }).GetMetadata().GetUid()
	want := func(when string, samples map[string]float64) {
		t.Helper()
		for sample, want := range samples {
			if got, ok := sampleOf(t, "http://"+internal.Addr().String()+"/metrics", sample); !ok || got != want {
				t.Errorf("%s: got %s %v, %v, want %v", when, sample, got, ok, want)
			}
		}
	}
	const outcomes, clusters = "leat_delivery_outcomes_total{outcome=", "leat_fleet_clusters{state="
	want("at the start", map[string]float64{
		outcomes + `"healthy"}`: 0, outcomes + `"failed"}`: 0, outcomes + `"superseded"}`: 0, `leat_fleet_services{phase="healthy"}`: 0,
		// An alert on a counter sees the first event only if the counter began at zero.
		`leat_distributor_break_glass_calls_total{}`: 0, `leat_distributor_token_exchanges_total{outcome="refused"}`: 0,
		`leat_notifications_attempts_total{outcome="dead",sink="email"}`: 0, `leat_distributor_rollout_decisions_total{kind="halt"}`: 0,
		`leat_plan_waiting_age_seconds{}`: 0, `leat_source_waiting_age_seconds{}`: 0, `leat_notifications_waiting_age_seconds{}`: 0,
		clusters + `"connected"}`: 0, clusters + `"away"}`: 1, clusters + `"unenrolled"}`: 1,
	})

	const trace = "0af7651916cd43dd8448eb211c80319c"
	agents, said := h.agents(t, agent.token), newReporter()
	for _, phase := range []typev1.ServicePhase{
		typev1.ServicePhase_SERVICE_PHASE_SYNCING, typev1.ServicePhase_SERVICE_PHASE_PROGRESSING, typev1.ServicePhase_SERVICE_PHASE_HEALTHY,
		typev1.ServicePhase_SERVICE_PHASE_DEGRADED, typev1.ServicePhase_SERVICE_PHASE_HEALTHY,
	} {
		report := stated("app", uid, "content", "text", phase)
		if phase != typev1.ServicePhase_SERVICE_PHASE_SYNCING {
			report.AppliedAt = &timestamppb.Timestamp{Seconds: 9} // by a clock that is wrong
		}
		report.Traceparent = "00-" + trace + "-b7ad6b7169203331-01"
		said.set(report)
		said.flush(t, func(request *distributorv1.ReportStatusRequest) (*distributorv1.ReportStatusResponse, error) {
			return agents.ReportStatus(t.Context(), request)
		})
	}
	if n, ok := sampleOf(t, "http://"+internal.Addr().String()+"/metrics", "leat_plan_compute_duration_seconds_count{}"); !ok || n == 0 {
		t.Errorf("got %v, %v changes that plans followed, want some", n, ok)
	}
	want("after the delivery", map[string]float64{
		`leat_delivery_duration_seconds_count{leat_delivery_stage="applied"}`: 1,
		`leat_delivery_duration_seconds_count{leat_delivery_stage="healthy"}`: 1,
		outcomes + `"healthy"}`: 1, outcomes + `"failed"}`: 0, outcomes + `"superseded"}`: 0,
		`leat_fleet_services{phase="healthy"}`: 1, `leat_fleet_services{phase="degraded"}`: 0,
		clusters + `"connected"}`: 1, clusters + `"away"}`: 0,
	})
	wantExemplars(t, "http://"+internal.Addr().String()+"/metrics", "leat_delivery_duration_seconds_bucket", trace, 2)
}

// wantExemplars expects that so many buckets of a histogram have an exemplar of that trace. OpenMetrics alone has
// exemplars.
func wantExemplars(t *testing.T, url, histogram, trace string, buckets int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var with []string
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if _, exemplar, ok := strings.Cut(lines.Text(), " # "); ok && strings.HasPrefix(lines.Text(), histogram) && strings.Contains(exemplar, `trace_id="`+trace+`"`) {
			with = append(with, lines.Text())
		}
	}
	if len(with) != buckets {
		t.Errorf("got the exemplars %q, want the trace %s in %d buckets", with, trace, buckets)
	}
}
