// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package derive_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/leatdev/leat/internal/testkit/heap"
	"github.com/leatdev/leat/services/distributor/internal/delivery/derive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// BenchmarkConfigurations derives one global service for 1,000 clusters of ten regions: without a
// configuration, with one that is equal everywhere, and with one that differs by region. It measures what
// each service holds of the heap.
func BenchmarkConfigurations(b *testing.B) {
	sets := map[string]*catalog.Config{"base": {Values: map[string]string{"K": "base"}}}
	for i := range 10 {
		sets[fmt.Sprint("region-", i)] = &catalog.Config{Values: map[string]string{"K": fmt.Sprint(i)}}
	}
	for name, config := range map[string]*catalog.Config{
		"none":   nil,
		"equal":  {References: map[string]string{"K": "hub://base/K"}},
		"region": {References: map[string]string{"K": "hub://region-${cluster.labels.region}/K"}},
	} {
		b.Run(name, func(b *testing.B) {
			const clusters = 1000
			g := web(func(s *catalog.GlobalServiceSpec) { s.Template.Spec.Config = config })
			var all []*derive.Cluster
			for i := range clusters {
				all = append(all, cluster(fmt.Sprint("cluster-", i), map[string]string{"region": fmt.Sprint(i % 10)}, ""))
			}
			for b.Loop() {
				c := compiled(b, g)
				if config != nil {
					c.Use(setsOf(1, sets))
				}
				services := make([]derive.Derived, 0, clusters)
				before := heap.Live()
				for _, cluster := range all {
					s, err := c.Derive(b.Context(), cluster, "all")
					if err != nil {
						b.Fatal(err)
					}
					services = append(services, s)
				}
				b.ReportMetric(float64(heap.Live()-before)/clusters, "B/service")
				runtime.KeepAlive(services)
			}
		})
	}
}
