// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
)

// earliest returns the earlier of two times. The zero time is later than any.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// decide compares an object with what is known of it.
func (r *run) decide(o *unstructured.Unstructured, sum fingerprint.Sum) observe.Verdict {
	key := inventory.RefOf(o).Key
	known, isListed := r.recorded(key)
	return r.unit.objects.Decide(key, sum, isListed && known.UID != "", observe.Mode{
		Drift: r.service.Spec.Policy.Drift, CorrectsAll: r.asked || r.news,
	})
}

// repairs reports whether the manifest of an object is what was applied last, so that a run would take
// back what others have taken.
func (r *run) repairs(o *unstructured.Unstructured) bool {
	return r.unit.objects.IsRepair(inventory.RefOf(o).Key, r.sumOf(o))
}

// store keeps what is known for the next process. It is called by the unit's goroutine.
func (u *unit) store(ctx context.Context) {
	if err := u.objects.Save(ctx, u.name, u.engine.params.Fingerprints); err != nil {
		u.engine.params.Logger.WarnContext(ctx, "fingerprints cannot be stored, a restart would apply the service again",
			slog.String("leat.service", u.name), slog.Any("error", err))
	}
}
