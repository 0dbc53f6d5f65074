// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import "sync"

// offer asks the tenure, on its own replica, to hand the repository over.
type offer struct {
	successor string
	done      chan error // takes one answer: nil once the successor owns the repository
}

// inbox holds what others on this replica want of the tenure. What arrives while this replica is
// not the owner waits for the next tenure, but for an offer, which its maker withdraws.
type inbox struct {
	changes *changes

	mu          sync.Mutex
	isAnnounced bool   // the followers are to look at the mirror
	offer       *offer // nil: there is none
}

// announce has an event published that makes followers look, whether or not refs moved.
func (i *inbox) announce() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.isAnnounced = true
	i.changes.notify()
}

func (i *inbox) takeAnnouncement() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	isAnnounced := i.isAnnounced
	i.isAnnounced = false
	return isAnnounced
}

// setOffer makes an offer; nil withdraws it.
func (i *inbox) setOffer(o *offer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.offer = o
	i.changes.notify()
}

func (i *inbox) takeOffer() *offer {
	i.mu.Lock()
	defer i.mu.Unlock()
	o := i.offer
	i.offer = nil
	return o
}
