// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
)

// Item is a message in the outbox.
type Item struct {
	NotifierUID string
	// Cause is the common cause of events that can be added.
	Cause   string
	Message notice.Message
	// Commit is the one whose status is sent; zero for other notifiers.
	Commit    Commit
	CreatedAt time.Time
	// NextAt is when the message may be sent.
	NextAt time.Time
	// Attempts counts begun attempts. A message without any may still be added to.
	Attempts  int
	LastError string
}

// causeSeparator does not occur in kinds, reasons and commits.
const causeSeparator = "\n"

// statusCause begins the causes of statuses of commits.
const statusCause = "commit"

// causeOf returns what an event must have in common with others to be sent with them, and how people
// call it.
func causeOf(t Told) (key, shown string) {
	if t.Commit != (Commit{}) {
		return strings.Join([]string{statusCause, t.Commit.Repository, t.Commit.ID}, causeSeparator), t.Commit.ID
	}
	e := t.Event
	return strings.Join([]string{string(e.Kind), e.Reason, e.Commit}, causeSeparator), cmp.Or(e.Reason, e.Commit)
}

// CommitOf returns the commit whose status a message of a cause is about; zero for another message.
func CommitOf(cause string) Commit {
	parts := strings.Split(cause, causeSeparator)
	if len(parts) != 3 || parts[0] != statusCause {
		return Commit{}
	}
	return Commit{Repository: parts[1], ID: parts[2]}
}

// Gather returns events as messages, one for each notifier and cause, in the order of their first
// events. Each may be sent when its notifier's window has passed.
func Gather(told []Told, at time.Time, newID func() string) []Item {
	type place struct{ notifier, cause string }
	known := map[place]int{}
	var items []Item
	for _, t := range told {
		cause, shown := causeOf(t)
		p := place{t.Notifier.UID, cause}
		i, ok := known[p]
		if !ok {
			i = len(items)
			known[p] = i
			items = append(items, Item{
				NotifierUID: t.Notifier.UID, Cause: cause, Commit: t.Commit, CreatedAt: at, NextAt: at.Add(t.Notifier.Spec.Window()),
				Message: notice.Message{ID: newID(), Kind: t.Event.Kind, Cause: shown},
			})
		}
		items[i].Message = items[i].Message.Add(t.Event)
	}
	return items
}

// Place puts new messages of one notifier into its outbox. collecting are the messages there that no
// attempt was made to send, and waiting is how many messages wait in all. It returns the messages to
// write, old or new, and the number of events that there is no room for.
func Place(collecting, added []Item, waiting int) (written []Item, lost int) {
	byCause := map[string]int{}
	var all []Item
	for _, item := range collecting {
		byCause[item.Cause] = len(all)
		all = append(all, item)
	}
	old := len(all)
	isWritten := map[int]bool{}
	for _, item := range added {
		i, ok := byCause[item.Cause]
		if !ok && len(all) >= maxCollecting && item.Commit == (Commit{}) {
			// One message of the kind takes what has various causes.
			item.Cause, item.Message.Cause = string(item.Message.Kind), ""
			i, ok = byCause[item.Cause]
		}
		switch {
		case ok:
			all[i].Message = all[i].Message.Merge(item.Message)
			isWritten[i] = true
		case waiting+len(all)-old >= MaxWaiting:
			lost += item.Message.Count
		default:
			byCause[item.Cause] = len(all)
			isWritten[len(all)] = true
			all = append(all, item)
		}
	}
	for i, item := range all {
		if isWritten[i] {
			written = append(written, item)
		}
	}
	return slices.Clip(written), lost
}
