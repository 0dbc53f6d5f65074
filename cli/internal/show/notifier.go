// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// notifierKind shows notifiers.
var notifierKind = kind{
	columns: []string{"NAME", "SINK", "TARGET", "EVENTS", "SENT", "WAITING", "DEAD", "LOST", "ERROR"},
	cells:   notifierCells,
}

// notifierCells shows where a notifier sends, and what became of its messages.
func notifierCells(object *fleetv1.Document, _ time.Time) []cell {
	n := object.GetNotifier()
	spec, status := n.GetSpec(), n.GetStatus()
	sink := ""
	if m := spec.ProtoReflect(); m.IsValid() {
		if field := m.WhichOneof(m.Descriptor().Oneofs().ByName("sink")); field != nil {
			sink = field.JSONName()
		}
	}
	if spec.GetSuspended() {
		sink += " (suspended)"
	}
	return []cell{
		plain(n.GetMetadata().GetName()), plain(sink), plain(status.GetTarget()), list(spec.GetEvents()), plain(fmt.Sprint(status.GetSent())),
		plain(fmt.Sprint(status.GetWaiting())), alarming(int64(status.GetDead())), alarming(status.GetLost()), plain(oneLine(status.GetLastError())),
	}
}

// DeadLetters prints messages that were given up.
func DeadLetters(w io.Writer, format Format, style Style, now time.Time, letters []*fleetv1.DeadLetter) error {
	return items(w, format, newGrid(style, "ID", "AGE", "KIND", "EVENTS", "ATTEMPTS", "TEXT", "ERROR"), letters, func(l *fleetv1.DeadLetter) []cell {
		return []cell{
			plain(l.GetId()), ago(l.GetTime(), now), plain(l.GetKind()), plain(fmt.Sprint(l.GetCount())), plain(fmt.Sprint(l.GetAttempts())),
			plain(oneLine(l.GetText())), plain(oneLine(l.GetError())),
		}
	})
}
