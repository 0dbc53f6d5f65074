// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/agent/internal/metrics"
)

// metricsByNumber are the metrics by their number on the wire.
var metricsByNumber = map[agentv1.Metric]metrics.Metric{
	agentv1.Metric_METRIC_CPU:              metrics.CPU,
	agentv1.Metric_METRIC_CPU_REQUEST:      metrics.CPURequest,
	agentv1.Metric_METRIC_CPU_LIMIT:        metrics.CPULimit,
	agentv1.Metric_METRIC_CPU_THROTTLED:    metrics.CPUThrottled,
	agentv1.Metric_METRIC_MEMORY:           metrics.Memory,
	agentv1.Metric_METRIC_MEMORY_REQUEST:   metrics.MemoryRequest,
	agentv1.Metric_METRIC_MEMORY_LIMIT:     metrics.MemoryLimit,
	agentv1.Metric_METRIC_RESTARTS:         metrics.Restarts,
	agentv1.Metric_METRIC_NETWORK_RECEIVED: metrics.NetworkReceived,
	agentv1.Metric_METRIC_NETWORK_SENT:     metrics.NetworkSent,
}

func questionOf(m *agentv1.QueryMetricsRequest) (metrics.Request, error) {
	metric, ok := metricsByNumber[m.GetMetric()]
	if !ok {
		return metrics.Request{}, rpcerr.Field("metric", "is not a metric that this agent has; it is required")
	}
	start, err := timeOf("start", m.GetStart())
	if err != nil {
		return metrics.Request{}, err
	}
	end, err := timeOf("end", m.GetEnd())
	if err != nil {
		return metrics.Request{}, err
	}
	if m.GetStep() != nil && m.GetStep().CheckValid() != nil {
		return metrics.Request{}, rpcerr.Field("step", "is not a valid duration")
	}
	return metrics.Request{
		Service: m.GetService(), Metric: metric, Window: metrics.Window{Start: start, End: end, Step: m.GetStep().AsDuration()},
	}, nil
}

// timeOf returns the zero time for an unset one.
func timeOf(field string, t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	if t.CheckValid() != nil {
		return time.Time{}, rpcerr.Field(field, "is not a valid time")
	}
	return t.AsTime(), nil
}

func answerMessage(metric agentv1.Metric, a metrics.Answer) *agentv1.QueryMetricsResponse {
	m := &agentv1.QueryMetricsResponse{LeftOut: int32(a.LeftOut), Step: durationpb.New(a.Step), Expression: a.Expression}
	for _, s := range a.Series {
		series := &agentv1.MetricSeries{Metric: metric, Namespace: s.Namespace, Pod: s.Pod, Container: s.Container}
		for _, p := range s.Points {
			series.Points = append(series.Points, &agentv1.MetricPoint{Time: timestamppb.New(p.Time), Value: p.Value})
		}
		m.Series = append(m.Series, series)
	}
	return m
}
