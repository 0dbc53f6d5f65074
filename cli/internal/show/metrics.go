// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"math"

	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// sparks are the heights of a line of figures, and sparkWidth is its width.
var sparks = []rune("▁▂▃▄▅▆▇█")

const sparkWidth = 24

// Metrics prints series of CPU and memory: as they are, or as one row for each pod.
func Metrics(w io.Writer, format Format, style Style, all []*agentv1.MetricSeries) error {
	switch format {
	case JSON:
		return document.WriteJSONItems(w, all)
	case YAML:
		return document.WriteYAMLItems(w, all)
	case Table:
	}
	type pod struct{ namespace, name string }
	type figures map[agentv1.Metric]*agentv1.MetricSeries
	var order []pod
	pods := map[pod]figures{}
	for _, series := range all {
		key := pod{series.GetNamespace(), series.GetPod()}
		if pods[key] == nil {
			pods[key] = figures{}
			order = append(order, key)
		}
		pods[key][series.GetMetric()] = series
	}
	rows := newGrid(style, "NAMESPACE", "POD", "CPU", "CPU OVER TIME", "MEMORY", "MEMORY OVER TIME")
	table := make([][]cell, 0, len(order))
	for _, key := range order {
		cpu, memory := pods[key][agentv1.Metric_METRIC_CPU], pods[key][agentv1.Metric_METRIC_MEMORY]
		table = append(table, []cell{
			plain(key.namespace), plain(key.name), plain(last(cpu, cores)), plain(spark(cpu)), plain(last(memory, mebibytes)), plain(spark(memory)),
		})
	}
	return rows.write(w, table)
}

func last(series *agentv1.MetricSeries, write func(float64) string) string {
	points := series.GetPoints()
	if len(points) == 0 {
		return ""
	}
	return write(points[len(points)-1].GetValue())
}

// cores and mebibytes write figures as kubectl top does.
func cores(value float64) string     { return fmt.Sprintf("%.0fm", value*1000) }
func mebibytes(value float64) string { return fmt.Sprintf("%.0fMi", value/(1<<20)) }

// spark draws the largest figure of each part of the time, from nothing to the largest of all.
func spark(series *agentv1.MetricSeries) string {
	points := series.GetPoints()
	width := min(sparkWidth, len(points))
	parts := make([]float64, width)
	largest := 0.0
	for i, point := range points {
		part := i * width / len(points)
		parts[part] = max(parts[part], point.GetValue())
		largest = max(largest, point.GetValue())
	}
	line := make([]rune, width)
	for i, value := range parts {
		height := 0
		if largest > 0 && value > 0 && !math.IsInf(largest, 0) {
			height = min(len(sparks)-1, int(value/largest*float64(len(sparks))))
		}
		line[i] = sparks[height]
	}
	return string(line)
}
