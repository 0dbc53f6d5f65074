// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/internal/kit/waiting"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// TestChangesThatWaitAreMeasured has two changes wait for a third one.
func TestChangesThatWaitAreMeasured(t *testing.T) {
	t.Parallel()
	line := new(waiting.Line)
	view := fleet.New(fleet.Params{Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""), Waiting: line})
	done := fleet.TakeTurn(view)
	if n := line.Len(); n != 0 {
		t.Errorf("got %d that wait beside the first, want none", n)
	}
	ended := make(chan struct{}, 2)
	for range 2 {
		go func() {
			fleet.TakeTurn(view)()
			ended <- struct{}{}
		}()
	}
	await.True(t, "both to wait", func() bool { return line.Len() == 2 })
	done()
	<-ended
	<-ended
	if n := line.Len(); n != 0 {
		t.Errorf("got %d that wait in the end, want none", n)
	}
}
