// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"sync/atomic"

	"github.com/leatdev/leat/internal/kit/wake"
)

// offer asks the tenure, on its own replica, to hand the repository over.
type offer struct {
	successor string
	done      chan error // takes one answer: nil once the successor owns the repository
}

// inbox holds what others on this replica want of the tenure. An announcement that arrives while
// this replica is not the owner waits for the next tenure. An offer is withdrawn by its maker.
type inbox struct {
	changes     *wake.Broadcast
	isAnnounced atomic.Bool           // the followers are to query the mirror
	offer       atomic.Pointer[offer] // nil: there is none
}

// announce has an event published that makes followers look, whether or not refs moved.
func (i *inbox) announce() {
	i.isAnnounced.Store(true)
	i.changes.Notify()
}

// setOffer makes an offer; nil withdraws it.
func (i *inbox) setOffer(o *offer) {
	i.offer.Store(o)
	i.changes.Notify()
}
