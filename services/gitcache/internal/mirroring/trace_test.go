// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"
)

func TestAFetchBelongsToTheTraceOfWhoAskedForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		set, stop := w.replica(t, "a", nil, definition("demo"))
		defer stop()
		r := get(t, set, "demo")
		synctest.Wait()
		w.upstream.set(map[string]string{"refs/heads/main": "c2"}, nil)
		ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{0xab}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled,
		}))
		if _, err := r.Refresh(ctx, true); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.upstream.set(map[string]string{"refs/heads/main": "c3"}, nil)
		time.Sleep(time.Hour) // a poll has no caller
		var traces []string
		for _, e := range w.events.all() {
			if len(e.Changed) > 0 {
				traces = append(traces, e.Traceparent)
			}
		}
		want := []string{"00-ab000000000000000000000000000000-0100000000000000-01", ""}
		if diff := cmp.Diff(want, traces); diff != "" {
			t.Errorf("traces of events (-want +got):\n%s", diff)
		}
	})
}
