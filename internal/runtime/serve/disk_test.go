// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"path/filepath"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/leatdev/leat/internal/runtime/serve"
)

// TestDisk measures the file system of a folder, and nothing where the folder is not there.
func TestDisk(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, path := range []string{folder, filepath.Join(folder, "absent")} {
		reader := sdkmetric.NewManualReader()
		if err := serve.ObserveDisk(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"), path); err != nil {
			t.Fatal(err)
		}
		free, size := gauges(t, reader, "leat.disk.free", "")[""], gauges(t, reader, "leat.disk.size", "")[""]
		if isThere := path == folder; free > size || size > 0 != isThere {
			t.Errorf("%s: got %d of %d bytes free", path, free, size)
		}
	}
}
