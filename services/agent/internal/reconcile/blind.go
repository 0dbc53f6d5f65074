// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/services/agent/internal/health"
)

// Blind tells why objects of a kind cannot be observed. Until they are, that is what is said of those that never were.
func (e *Engine) Blind(kind schema.GroupKind, why string) {
	for _, u := range e.all() {
		u.blind(kind, why)
	}
}

func (u *unit) blind(kind schema.GroupKind, why string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, o := range u.record.Objects.Objects() {
		if o.GroupKind() != kind {
			continue
		}
		if t := u.observed.of(o.Key); !t.seen {
			t.rare = &rare{verdict: health.Verdict{State: health.Unknown, Message: why}}
		}
	}
	signal(u.wake)
}
