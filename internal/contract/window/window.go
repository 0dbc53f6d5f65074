// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package window decides when a service may be changed.
//
// Windows open by the clocks of their time zone. When clocks are put back, a window that begins in
// the repeated hour opens twice. When they are put forward, a window that begins in the skipped
// hour opens at the moment of the change. So no freeze is ever missed.
package window

import (
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // names of time zones mean the same on a machine that knows none

	"github.com/robfig/cron/v3"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
)

// Occasion is the cause of a change to the cluster.
type Occasion int

// The occasions.
const (
	Change     Occasion = iota // the plan has changed
	Request                    // a person has requested it
	Correction                 // drift from the applied state is corrected
)

// Calendar holds the windows of one service. The zero Calendar is always open. It is immutable.
type Calendar struct {
	windows []window
}

type window struct {
	schedule     cron.Schedule
	zone         *time.Location
	length       time.Duration
	deny, strict bool
}

// New compiles windows. The error names the first invalid one.
func New(windows []syncpolicy.Window) (Calendar, error) {
	var c Calendar
	for i, w := range windows {
		parsed, err := parse(w)
		if err != nil {
			return Calendar{}, fmt.Errorf("window %d: %w", i+1, err)
		}
		c.windows = append(c.windows, parsed)
	}
	return c, nil
}

func parse(w syncpolicy.Window) (window, error) {
	const fields = cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow
	if strings.Contains(w.Schedule, "TZ=") {
		return window{}, fmt.Errorf("schedule %q names a time zone; set the field for the time zone instead", w.Schedule)
	}
	schedule, err := cron.NewParser(fields).Parse(w.Schedule)
	if err != nil {
		return window{}, fmt.Errorf("read schedule %q: %w", w.Schedule, err)
	}
	zone, err := time.LoadLocation(w.TimeZone)
	if err != nil {
		return window{}, fmt.Errorf("find time zone: %w", err)
	}
	if w.Duration <= 0 {
		return window{}, fmt.Errorf("duration is %v, want more than 0s", w.Duration)
	}
	return window{schedule: schedule, zone: zone, length: w.Duration, deny: w.Deny, strict: w.Strict}, nil
}

// Open reports whether a change is allowed at that time.
func (c Calendar) Open(at time.Time, why Occasion) bool {
	_, denied := c.isDenied(at, why)
	return !denied && (!c.needsWindow(why) || c.isAllowed(at))
}

// maxSteps bounds how far Next looks ahead.
const maxSteps = 500

// Next returns the first time from now on at which a change is allowed. If it finds no such time,
// opens is false and at is the end of the examined period, or zero if there will never be one.
func (c Calendar) Next(now time.Time, why Occasion) (at time.Time, opens bool) {
	at = now
	for range maxSteps {
		end, denied := c.isDenied(at, why)
		switch {
		case denied:
			at = end
		case c.needsWindow(why) && !c.isAllowed(at):
			if at = c.opening(at); at.IsZero() {
				return at, false
			}
		default:
			return at, true
		}
	}
	return at, false
}

// isDenied reports whether a denying window is open, and when all that are open now have been
// closed once.
func (c Calendar) isDenied(at time.Time, why Occasion) (end time.Time, denied bool) {
	for _, w := range c.windows {
		if !w.deny || why != Change && !w.strict {
			continue
		}
		if until, open := w.isOpen(at); open {
			denied = true
			if until.After(end) {
				end = until
			}
		}
	}
	return end, denied
}

// needsWindow reports whether a change needs an open window.
func (c Calendar) needsWindow(why Occasion) bool {
	if why == Correction {
		return false
	}
	return slices.ContainsFunc(c.windows, func(w window) bool { return !w.deny && (why == Change || w.strict) })
}

// isAllowed reports whether an allowing window is open.
func (c Calendar) isAllowed(at time.Time) bool {
	return slices.ContainsFunc(c.windows, func(w window) bool {
		_, open := w.isOpen(at)
		return open && !w.deny
	})
}

// opening returns when the next allowing window opens after that time, or zero if there will never
// be one.
func (c Calendar) opening(after time.Time) (first time.Time) {
	for _, w := range c.windows {
		if w.deny {
			continue
		}
		if start := w.start(after); !start.IsZero() && (first.IsZero() || start.Before(first)) {
			first = start
		}
	}
	return first
}

// isOpen reports whether the window is open at that time, and returns when it closes. It may open
// again at that moment.
func (w window) isOpen(at time.Time) (until time.Time, open bool) {
	start := w.start(at.Add(-w.length))
	if start.IsZero() || start.After(at) {
		return time.Time{}, false
	}
	return start.Add(w.length), true
}

// start returns when the window opens for the first time after that time, or zero if it never does.
// Between two changes of the clocks the local time has a constant offset from UTC, so the schedule
// is evaluated in UTC alone.
func (w window) start(after time.Time) time.Time {
	for at := after; ; {
		_, offset := at.In(w.zone).Zone()
		clock := time.Duration(offset) * time.Second
		next := w.schedule.Next(at.UTC().Add(clock))
		if next.IsZero() {
			return next
		}
		next = next.Add(-clock)
		_, end := at.In(w.zone).ZoneBounds()
		if end.IsZero() || next.Before(end) {
			return next
		}
		if w.begins(end) {
			return end.UTC()
		}
		at = end
	}
}

// begins reports whether the window opens at the moment of a change of the clocks, because they
// show its time then, or are put forward past it.
func (w window) begins(change time.Time) bool {
	_, before := change.Add(-time.Second).Zone()
	_, after := change.Zone()
	shown := change.UTC().Add(time.Duration(min(before, after)) * time.Second)
	if after < before { // put back
		return w.schedule.Next(shown.Add(-time.Second)).Equal(shown)
	}
	gap := time.Duration(after-before) * time.Second
	return !w.schedule.Next(shown.Add(-time.Second)).After(shown.Add(gap))
}
