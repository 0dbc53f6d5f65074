// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/kit/volume"
	"github.com/leatdev/leat/internal/runtime/instrument"
)

// ObserveDisk measures the file system that holds the data folder of a service. What the service
// itself has stored does not show that others have filled it.
func ObserveDisk(meter metric.Meter, folder string) error {
	part := func(of func(free, size int64) int64) instrument.Values {
		return func(observe func(int64, ...attribute.KeyValue)) {
			if free, size, err := volume.Space(folder); err == nil {
				observe(of(free, size))
			}
		}
	}
	set := instrument.New(meter)
	set.Int64ObservableGauge("leat.disk.free", "By", "Bytes that are free on the file system of the data folder.",
		part(func(free, _ int64) int64 { return free }))
	set.Int64ObservableGauge("leat.disk.size", "By", "Size of the file system of the data folder.",
		part(func(_, size int64) int64 { return size }))
	return set.Err()
}
