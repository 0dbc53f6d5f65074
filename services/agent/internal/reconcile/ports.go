// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// Reporter receives the states of services. Its methods return at once, and may be called
// concurrently.
type Reporter interface {
	// Report receives a service's new status.
	Report(status report.Status)
	// Forget reports that a service is gone from the cluster.
	Forget(service string)
	// Adopted reports that every service has its order under a plan. Their statuses follow at once.
	Adopted(version string)
}

// Watches observes objects that carry Leat's label, and reports them to the engine through Observe
// and Synced. Its methods return at once.
type Watches interface {
	// Watch replaces the observed collections. A collection that stays is not observed again.
	Watch(collections []observe.Collection)
	// Recheck lists, judges and observes every object again, because the rules of health changed.
	Recheck()
}
