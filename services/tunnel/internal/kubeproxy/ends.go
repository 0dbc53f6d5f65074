// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import "errors"

// Why the hub ends a request that is running.
var (
	errDrained = errors.New("hub is shutting down")
	errRevoked = errors.New("permission was withdrawn")
	// errAnswered ends the rest of a request whose answer is complete.
	errAnswered = errors.New("request is answered")
	// errCallerGone ends a session whose caller has hung up.
	errCallerGone = errors.New("caller is gone")
	// errUnrecorded ends a session that could not be recorded any further.
	errUnrecorded = errors.New("session cannot be recorded")
	// errIdle ends a session of which one direction has ended and no byte moves in the other.
	errIdle = errors.New("nothing moves on a half-closed connection")
	// errStalled ends a request whose caller does not read the answer.
	errStalled = errors.New("caller takes no byte of the answer")
)
