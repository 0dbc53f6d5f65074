// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/objectname"
)

// Stage is where a member stands.
type Stage string

// The stages.
const (
	// Unchanged members have the candidate's content already.
	Unchanged Stage = "unchanged"
	Waiting   Stage = "waiting"
	Admitted  Stage = "admitted"
	Arrived   Stage = "arrived"
	Failed    Stage = "failed"
	GoingBack Stage = "goingBack"
	Back      Stage = "back"
)

// Explain returns where a member of the run stands, and why it does not have the candidate yet, as a
// sentence; empty for one that has it.
func (r *Run) Explain(p *Progress) (Stage, string) {
	switch {
	case !p.isChanged():
		return Unchanged, ""
	case p.IsAdmitted && p.isUp():
		return Arrived, ""
	case p.IsAdmitted && !p.FailedAt.IsZero():
		return Failed, "it counts as failed since " + stamp(p.FailedAt) + p.cause()
	case p.IsAdmitted:
		return Admitted, p.unsettled()
	case p.IsWithdrawn && p.isUp() && p.Why != "":
		return Back, "it went back because it failed: " + p.Why
	case p.IsWithdrawn && p.isUp():
		return Back, "it went back: " + r.Says(r.Why, showName)
	case p.IsWithdrawn:
		return GoingBack, p.unsettled()
	case r.State == Running && !p.IsOnline:
		return Waiting, "its cluster is offline since " + stamp(p.OnlineSince)
	case r.State == Running && p.Wave > r.Cursor:
		return Waiting, fmt.Sprintf("wave %q has not begun; the current one is %q", r.Waves[p.Wave].Name, r.Current())
	case r.State == Running && r.Blocked.Why != "":
		return Waiting, r.Blocked.Why
	case r.State == Running:
		return Waiting, "it is the turn of others of its wave"
	}
	return Waiting, fmt.Sprintf("the rollout is %s", r.State)
}

// unsettled says why a member does not have what it should.
func (p *Progress) unsettled() string {
	switch {
	case !p.IsOnline:
		return "its cluster is offline"
	case p.Has != p.wants():
		return "its agent has not applied it yet"
	case p.Health == Failing:
		return "it is failing since " + stamp(p.FailingSince) + p.cause()
	}
	return "it is not healthy yet"
}

// cause returns why the member failed, to be added to a sentence; empty if that is not known.
func (p *Progress) cause() string {
	if p.Why == "" {
		return ""
	}
	return ": " + p.Why
}

// Says returns a text of the run, such as Why, in which each name of a member is replaced by what show returns.
func (r *Run) Says(text string, show func(*Progress) string) string {
	const ends = " ,:"
	members := map[string]*Progress{} // by the words that may be names
	for word := range strings.FieldsFuncSeq(text, func(c rune) bool { return strings.ContainsRune(ends, c) }) {
		if strings.Contains(word, "@") {
			members[word] = nil
		}
	}
	if len(members) == 0 {
		return text
	}
	for i := range r.Members {
		if _, isNamed := members[r.Members[i].Name]; isNamed {
			members[r.Members[i].Name] = &r.Members[i]
		}
	}
	var said strings.Builder
	for {
		end := strings.IndexAny(text, ends)
		word := text
		if end >= 0 {
			word = text[:end]
		}
		if p := members[word]; p != nil {
			word = show(p)
		}
		said.WriteString(word)
		if end < 0 {
			return said.String()
		}
		said.WriteByte(text[end])
		text = text[end+1:]
	}
}

// showName returns the name of a member as people write it.
func showName(p *Progress) string { return objectname.Display(p.Name) }

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }
