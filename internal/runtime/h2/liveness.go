// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import "time"

// liveness decides when a silent peer is asked whether it is alive, and when it is given up. It is
// a value: its caller sends the PING and ends the connection.
type liveness struct {
	pingAfter, pingTimeout time.Duration
	pinged                 time.Time // when the peer was asked last
}

// check reports whether to ask the peer now, and returns when to check again; zero if the peer is
// given up. The peer was heard last at that time. A peer that was not heard since it was asked has
// PingTimeout to answer.
func (l *liveness) check(now, heard time.Time) (shouldPing bool, next time.Duration) {
	silence, waited := now.Sub(heard), now.Sub(l.pinged)
	switch {
	case silence < l.pingAfter:
		return false, l.pingAfter - silence
	case !l.pinged.After(heard):
		l.pinged = now
		return true, l.pingTimeout
	case waited < l.pingTimeout:
		return false, l.pingTimeout - waited
	}
	return false, 0
}
