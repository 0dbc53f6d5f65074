// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"time"
)

// HeartbeatInterval is how often a stream sends something when nothing happens.
const HeartbeatInterval = 20 * time.Second

// Expiry returns a channel that receives a value at the time, or never if it is zero, and a
// function that releases it.
func Expiry(at time.Time) (<-chan time.Time, func() bool) {
	if at.IsZero() {
		return nil, func() bool { return false }
	}
	timer := time.NewTimer(time.Until(at))
	return timer.C, timer.Stop
}
