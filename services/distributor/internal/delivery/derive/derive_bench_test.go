// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package derive_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/testkit/heap"
	"github.com/leatdev/leat/services/distributor/internal/delivery/derive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// BenchmarkContents derives a chart with 16 KiB of values for 1,000 clusters, each of which has its name
// among them, and measures what each service holds of the heap.
func BenchmarkContents(b *testing.B) {
	const clusters = 1000
	g := web(func(s *catalog.GlobalServiceSpec) {
		s.Template.Spec.Options.Render = []renderstep.Step{{Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{Values: chartValues(16 << 10)}}}
	})
	for b.Loop() {
		c := compiled(b, g)
		services := make([]derive.Derived, 0, clusters)
		before := heap.Live()
		for i := range clusters {
			s, err := c.Derive(b.Context(), cluster(fmt.Sprintf("cluster-%d", i), nil, ""), "all")
			if err != nil {
				b.Fatal(err)
			}
			services = append(services, s)
		}
		b.ReportMetric(float64(heap.Live()-before)/clusters, "B/service")
		runtime.KeepAlive(services)
	}
}

// chartValues are values of a chart of about that size, with one that differs between clusters.
func chartValues(size int) map[string]any {
	components := map[string]any{}
	for i := 0; i < size; i += 200 {
		components[fmt.Sprintf("component-%d", i)] = map[string]any{
			"image":     strings.Repeat("x", 80),
			"replicas":  2.0,
			"resources": map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "128Mi"}},
			"args":      []any{"--verbose", "--listen=:8080"},
		}
	}
	return map[string]any{"clusterName": "${{ self.name }}", "components": components}
}
