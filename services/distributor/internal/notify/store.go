// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
)

// Ledger is everything that a new leader has to know.
type Ledger struct {
	// Since is when observing began. Zero: nothing has been observed yet.
	Since  time.Time
	States map[string]State
}

// Batch holds the leader's writes after a look at the fleet. It is stored whole.
type Batch struct {
	// Since replaces when observing began, unless it is zero.
	Since time.Time
	// States replace the states of objects, by id, and Gone are forgotten.
	States map[string]State
	Gone   []string
	// Added are messages, to be placed by [Place].
	Added []Item
}

// Store keeps states and messages; sqlstore.Notifications implements it. Its methods may be called
// concurrently. Errors match catalog.ErrUnavailable if the database does not answer, and errors of
// the methods with a term match election.ErrDeposed. Every write in a term counts as a beat.
type Store interface {
	// Ledger returns the stored ledger.
	Ledger(ctx context.Context) (Ledger, error)
	// Forget deletes all states, so that observing begins again.
	Forget(ctx context.Context, term int64) error
	// Save writes a batch. Messages of notifiers that are gone are left out.
	Save(ctx context.Context, term int64, batch Batch) error
	// Take returns messages that may be sent now, at most one for each notifier and limit in all, but
	// none of the notifiers to skip. It counts an attempt of each, and keeps it from being taken again
	// until the given time.
	Take(ctx context.Context, term int64, now, until time.Time, skip []string, limit int) ([]Item, error)
	// Oldest returns when the oldest message was made that waits to be sent; zero: none waits.
	Oldest(ctx context.Context) (time.Time, error)
	// Settle writes what became of a message.
	Settle(ctx context.Context, term int64, v Verdict) error
	// NotifierSecrets returns the secrets of the notifier with that uid. Error:
	// *catalog.NotFoundError.
	NotifierSecrets(ctx context.Context, uid string) (catalog.NotifierSecrets, error)
}

// Tally counts the services that are made of a commit, by what became of it.
type Tally struct{ Healthy, Failed, Pending int }

// Fleet is this replica's view of the fleet; fleet.Observations implements it. It is safe for
// concurrent use.
type Fleet interface {
	// Notifiers returns all notifiers, without their secrets.
	Notifiers() []*catalog.Notifier
	// Keys returns the keys of all objects of the kinds.
	Keys(kinds ...catalog.Kind) []catalog.Key
	// Learn reads the states of objects that are in the database alone. Errors match
	// catalog.ErrUnavailable if it does not answer; what was known stays.
	Learn(ctx context.Context) error
	// See returns the view of an object; false if it does not exist.
	See(key catalog.Key) (Seen, bool)
	// Tally counts the services that the notifier covers and that are to be made of the commit. The
	// URL is the repository's, empty if it is gone.
	Tally(n *catalog.Notifier, commit Commit) (tally Tally, url string)
}

// Delivery is one message on its way.
type Delivery struct {
	Notifier *catalog.Notifier
	Secrets  catalog.NotifierSecrets
	Message  notice.Message
	Text     string
	// Commit, Tally and URL belong to statuses of commits.
	Commit Commit
	Tally  Tally
	URL    string
}

// Sink sends messages; notifysink.Sinks implements it. It is safe for concurrent use.
type Sink interface {
	// Send sends a message once. It ends soon, whatever the receiver does. The answer is the
	// receiver's, bounded, for people. The error is a *RefusedError if the receiver did not take the
	// message. It holds no secret.
	Send(ctx context.Context, d Delivery) (answer string, err error)
}

// Mailbag is the state of the messages of a notifier.
type Mailbag struct {
	Waiting, Dead int
	// Sent counts messages, and Lost events.
	Sent, Lost  int64
	LastSentAt  time.Time
	LastError   string
	LastErrorAt time.Time
}

// Mail is the port by which people see messages; sqlstore.Notifications implements it. Errors match
// catalog.ErrUnavailable if the database does not answer.
type Mail interface {
	// Mailbags returns what became of the messages of notifiers, by uid. Those without any are left
	// out.
	Mailbags(ctx context.Context, uids []string) (map[string]Mailbag, error)
	// DeadLetters returns the messages that a notifier has given up, the oldest first.
	DeadLetters(ctx context.Context, uid string) ([]Item, error)
	// Resend has dead letters of a notifier sent again, all for no ids, and returns how many.
	Resend(ctx context.Context, uid string, ids []string, now time.Time) (int, error)
}
