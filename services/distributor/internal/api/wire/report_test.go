// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"testing"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// TestTimingsComeBack sends timings as an agent does, and reads them as people do.
func TestTimingsComeBack(t *testing.T) {
	t.Parallel()
	want := catalog.Timings{
		ArrivedAt: time.Unix(1, 0).UTC(), Download: 1, Render: 2, Apply: 3, Healthy: 4, RenderWait: 5,
	}
	message := wire.ReportMessage(&catalog.Service{}, &catalog.ServiceReport{Timings: want})
	if got := wire.ReportOf(message).Timings; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
