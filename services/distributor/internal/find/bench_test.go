// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package find_test

import (
	"fmt"
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// BenchmarkQuery asks about 100,000 services in 5,000 clusters.
func BenchmarkQuery(b *testing.B) {
	f, regions := newFleet(0), map[string]map[string]string{}
	for c := range 5000 {
		row := cluster(fmt.Sprintf("c%04d", c), fmt.Sprintf("r%d", c%10))
		regions[row.Object.Meta().Name] = row.Object.Meta().Labels
		f.put(row)
		for s := range 20 {
			phase := catalog.PhaseHealthy
			if (c+s)%50 == 0 {
				phase = catalog.PhaseFailed
			}
			f.put(service(fmt.Sprintf("app-%02d", s), row.Object.Meta().Name, phase))
		}
	}
	index := find.NewIndex(f)
	viewer := find.Viewer{LabelsOf: func(name string) map[string]string { return regions[name] }}
	for name, p := range map[string]find.Params{
		"first page":    {},
		"label":         {Filter: "label.app=app-07"},
		"cluster label": {Filter: "cluster.label.region=r3"},
		"phase":         {Filter: "phase=failed"},
		"commit":        {Filter: "commit=12345678"},
		"text":          {Filter: "quota"},
		"severity":      {Order: "severity"},
		"four counts":   {GroupBy: []string{"phase", "reason", "cluster.label.region", "repository"}},
	} {
		b.Run(name, func(b *testing.B) {
			p.Kind = catalog.KindService
			q := mustQuery(b, p)
			for b.Loop() {
				if _, err := q.Run(b.Context(), index.Snapshot(catalog.KindService), viewer, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
