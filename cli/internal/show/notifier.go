// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// notifierCells shows where a notifier sends, and what became of its messages.
func notifierCells(n *fleetv1.Notifier) []cell {
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

// alarming shows a number that should be zero.
func alarming(n int64) cell {
	if n == 0 {
		return plain("0")
	}
	return cell{fmt.Sprint(n), red}
}

// DeadLetters prints messages that were given up.
func DeadLetters(w io.Writer, format Format, style Style, now time.Time, letters []*fleetv1.DeadLetter) error {
	return items(w, format, newRows(style, "ID", "AGE", "KIND", "EVENTS", "ATTEMPTS", "TEXT", "ERROR"), letters, func(l *fleetv1.DeadLetter) []cell {
		return []cell{
			plain(l.GetId()), ago(l.GetTime(), now), plain(l.GetKind()), plain(fmt.Sprint(l.GetCount())), plain(fmt.Sprint(l.GetAttempts())),
			plain(oneLine(l.GetText())), plain(oneLine(l.GetError())),
		}
	})
}
