// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package notify tells other systems what happens in the fleet: it compares what the hub sees of each
// object with what it saw last, decides which notifiers that concerns, and sends messages.
//
// # Promises
//
// A change that still holds when the hub looks is sent at least once, through restarts of replicas
// and outages of receivers: a message leaves the database only when its receiver took it, when it
// is given up, or when too many wait. Messages that were given up can be read and sent again, and
// lost messages are counted. Every attempt to send a message has the same id.
//
// One replica observes and sends, the leader. Its writes carry its term, and one that was deposed
// writes nothing. It may still send what its successor sends, too.
//
// A notifier is told of what members of its project see, and of nothing else.
//
// Work and messages are bounded: events of one cause become one message, a notifier has few messages
// that collect events, and the number that wait for it is limited.
//
// # Parts
//
//	state.go    what changed, and whom to tell: pure functions
//	group.go    which events become one message: pure functions
//	retry.go    what becomes of a message after an attempt: pure functions
//	store.go    the ports
//	observer.go sees the fleet
//	sender.go   sends messages
//	leader.go   does both, at the replica that is elected
//
// # What it does not do
//
// It speaks to no receiver: package notifysink does. Changes that come and go between two looks are not
// told.
package notify

import "time"

const (
	// MaxWaiting bounds the messages of a notifier that wait.
	MaxWaiting = 1000
	// MaxDead bounds the messages that were given up.
	MaxDead = 1000
	// maxCollecting bounds the messages of a notifier that still collect events, by cause. Events of
	// further causes share one message for each kind.
	maxCollecting = 32
	// giveUpAfter is how long a message is tried.
	giveUpAfter = 24 * time.Hour
	// claimFor is how long a message that is being sent is not sent again.
	claimFor = 2 * time.Minute
	// maxError bounds the kept part of an error.
	maxError = 512
)
