// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import "github.com/leatdev/leat/services/distributor/internal/spine/catalog"

// ObservedKinds returns the kinds of objects whose states are followed.
func ObservedKinds() []catalog.Kind { return observedKinds() }

// StandingKinds returns the kinds that have their events in a table.
func StandingKinds() []catalog.Kind { return standingKinds() }

// HasStandingEvents reports whether the table has the events of a kind.
func HasStandingEvents(kind catalog.Kind) bool { return standingEvents[kind].failing != "" }
