// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/services/agent/internal/report"
)

// Reporter hears what becomes of services. Its methods return at once.
type Reporter interface {
	// Report tells a service's new status.
	Report(status report.Status)
	// Forget tells that a service is gone from the cluster.
	Forget(service string)
	// Adopted tells that a plan is worked on from now on. Its services' statuses follow at once.
	Adopted(version string)
}

// Watches observes objects that carry Leat's label, and tells the engine through Observe and Synced.
type Watches interface {
	// Watch sets the kinds to observe, in place of those before. It returns at once.
	Watch(kinds []schema.GroupVersionKind)
	// Recheck lists, judges and observes every object again: the rules of judging changed. It returns at once.
	Recheck()
}
