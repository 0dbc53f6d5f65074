// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/metrics"
	agentreport "github.com/leatdev/leat/services/agent/internal/report"
	"github.com/leatdev/leat/services/agent/internal/uplink"
)

// pod is an inventory of one pod for every service.
type pod struct{}

func (pod) Objects(string) ([]agentreport.ObjectStatus, error) {
	return []agentreport.ObjectStatus{{Ref: inventory.Ref{Key: inventory.Key{Kind: "Pod", Namespace: "shop", Name: "lone"}}}}, nil
}

// TestSecOnlyTheNamedServiceIsAskedForMetrics has agents with and without a lock of their own, and an
// answer with the figures of others.
func TestSecOnlyTheNamedServiceIsAskedForMetrics(t *testing.T) {
	t.Parallel()
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Host + r.URL.Path + " " + r.FormValue("query")
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"matrix","result":[
			{"metric":{"namespace":"shop","pod":"lone"},"values":[[1800000000,"7"]]},
			{"metric":{"namespace":"kube-system","pod":"lone"},"values":[[1800000000,"9"]]}]}}`)
	}))
	t.Cleanup(server.Close)
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	end := time.Unix(1_800_000_000, 0)
	request := metrics.Request{Service: "app", Metric: metrics.Memory, Window: metrics.Window{Start: end.Add(-time.Hour), End: end}}
	for _, test := range []struct {
		name   string
		locked bool
		allow  []uplink.Service
		at     string
		want   string // part of the problem, or nothing
	}{
		{"open", false, nil, "monitoring/prometheus:9090", ""},
		{"locked", true, nil, "monitoring/prometheus:9090", "LEAT_AGENT_SERVICE_PROXY_ALLOW"},
		{"locked, another port", true, []uplink.Service{{Namespace: "monitoring", Name: "prometheus", Port: 80}}, "monitoring/prometheus:9090", "LEAT_AGENT_SERVICE_PROXY_ALLOW"},
		{"locked, in the list", true, []uplink.Service{{Namespace: "monitoring", Name: "prometheus", Port: 9090}}, "monitoring/prometheus:9090", ""},
		{"of another form", false, nil, "evil.example.com:80", "spec.agent.metrics"},
		{"without one", false, nil, "", "spec.agent.metrics"},
	} {
		asked = ""
		source := agent.NewMetrics(agent.Config{LockDown: test.locked}, pod{}, uplink.ServiceParams{Allow: test.allow, Dial: dial, Logger: slog.New(slog.DiscardHandler)})
		source.SetService(test.at)
		answer, err := source.Query(t.Context(), request)
		if test.want != "" {
			if problem := reason.ProblemOf(err); problem.Reason != reason.MetricsNotConfigured || !strings.Contains(problem.Message, test.want) || asked != "" {
				t.Errorf("%s: got %v, asked %q, want METRICS_NOT_CONFIGURED with %q", test.name, err, asked, test.want)
			}
			continue
		}
		if err != nil || len(answer.Series) != 1 || answer.Series[0].Points[0].Value != 7 ||
			!strings.HasPrefix(asked, `prometheus.monitoring.svc:9090/api/v1/query_range sum by (namespace, pod) (container_memory_working_set_bytes{namespace="shop", pod=~"lone"`) {
			t.Errorf("%s: got %v, %v, asked %q, want the figures of the service's pod", test.name, answer, err, asked)
		}
	}
}
