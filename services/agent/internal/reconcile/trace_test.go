// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/reconcile"
)

// TestSpansFollowTheCommit has a commit whose trace continues in the cluster, and a refresh that
// only links to it.
func TestSpansFollowTheCommit(t *testing.T) {
	const trace = "0af7651916cd43dd8448eb211c80319c"
	bubble(t, reconcile.Settings{Refresh: time.Hour}, func(t *testing.T, w *world) {
		s := w.service(t, "s", "a")
		s.Traceparent = "00-" + trace + "-b7ad6b7169203331-01"
		w.plan(s)
		pass(t, time.Second)
		spans := w.spans.Ended()
		if len(spans) != 1 || spans[0].Name() != "service.apply" || spans[0].SpanContext().TraceID().String() != trace {
			t.Fatalf("got %d spans, first %+v, want service.apply in the commit's trace", len(spans), spans)
		}
		pass(t, 2*time.Hour)
		refresh := w.spans.Ended()[1]
		if refresh.SpanContext().TraceID().String() == trace || len(refresh.Links()) != 1 ||
			refresh.Links()[0].SpanContext.TraceID().String() != trace {
			t.Errorf("refresh: got trace %s, links %v, want one of its own with a link to the commit's",
				refresh.SpanContext().TraceID(), refresh.Links())
		}
	})
}

func TestSpanOfAFailedRun(t *testing.T) {
	bubble(t, reconcile.Settings{}, func(t *testing.T, w *world) {
		w.onApply = func(context.Context, *unstructured.Unstructured) error { return errors.New("no") }
		w.plan(w.service(t, "s", "a"))
		pass(t, 500*time.Millisecond)
		if got := w.spans.Ended()[0].Status(); got.Code != codes.Error || got.Description == "" {
			t.Errorf("got status %+v, want an error with the problem's reason", got)
		}
	})
}
