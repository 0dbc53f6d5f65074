// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package window_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/contract/window"
)

func calendar(t testing.TB, windows ...syncpolicy.Window) window.Calendar {
	t.Helper()
	c, err := window.New(windows)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func at(t testing.TB, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

var (
	nights = syncpolicy.Window{Schedule: "0 2 * * *", Duration: 2 * time.Hour}
	freeze = syncpolicy.Window{Schedule: "0 0 24 12 *", Duration: 72 * time.Hour, Deny: true}
	berlin = syncpolicy.Window{Schedule: "30 2 * * *", Duration: time.Hour, TimeZone: "Europe/Berlin"}
)

func strictly(w syncpolicy.Window) syncpolicy.Window {
	w.Strict = true
	return w
}

func TestOpen(t *testing.T) {
	t.Parallel()
	c, r, k := window.Change, window.Request, window.Correction
	for name, test := range map[string]struct {
		windows []syncpolicy.Window
		at      string
		why     window.Occasion
		next    string // empty: it is open
	}{
		"no windows":                       {nil, "2026-11-20T12:00:00Z", c, ""},
		"before it opens":                  {[]syncpolicy.Window{nights}, "2026-11-20T01:59:59Z", c, "2026-11-20T02:00:00Z"},
		"when it opens":                    {[]syncpolicy.Window{nights}, "2026-11-20T02:00:00Z", c, ""},
		"a moment before it closes":        {[]syncpolicy.Window{nights}, "2026-11-20T03:59:59.999Z", c, ""},
		"when it closes":                   {[]syncpolicy.Window{nights}, "2026-11-20T04:00:00Z", c, "2026-11-21T02:00:00Z"},
		"a person passes":                  {[]syncpolicy.Window{nights}, "2026-11-20T12:00:00Z", r, ""},
		"a person waits where it is meant": {[]syncpolicy.Window{strictly(nights)}, "2026-11-20T12:00:00Z", r, "2026-11-21T02:00:00Z"},
		"a correction passes":              {[]syncpolicy.Window{strictly(nights)}, "2026-11-20T12:00:00Z", k, ""},
		"outside a freeze":                 {[]syncpolicy.Window{freeze}, "2026-12-23T23:59:59Z", c, ""},
		"in a freeze":                      {[]syncpolicy.Window{freeze}, "2026-12-25T12:00:00Z", c, "2026-12-27T00:00:00Z"},
		"a freeze and a person":            {[]syncpolicy.Window{freeze}, "2026-12-25T12:00:00Z", r, ""},
		"a freeze and a correction":        {[]syncpolicy.Window{freeze}, "2026-12-25T12:00:00Z", k, ""},
		"a strict freeze and a person":     {[]syncpolicy.Window{strictly(freeze)}, "2026-12-25T12:00:00Z", r, "2026-12-27T00:00:00Z"},
		"a strict freeze and a correction": {[]syncpolicy.Window{strictly(freeze)}, "2026-12-25T12:00:00Z", k, "2026-12-27T00:00:00Z"},
		"a freeze beats an open window":    {[]syncpolicy.Window{nights, freeze}, "2026-12-25T03:00:00Z", c, "2026-12-27T02:00:00Z"},
		"a person in a strict one of two":  {[]syncpolicy.Window{strictly(nights), {Schedule: "0 12 * * *", Duration: time.Hour}}, "2026-11-20T12:30:00Z", r, ""},
		"one of two":                       {[]syncpolicy.Window{nights, {Schedule: "0 12 * * *", Duration: time.Hour}}, "2026-11-20T05:00:00Z", c, "2026-11-20T12:00:00Z"},
		"longer than its interval":         {[]syncpolicy.Window{{Schedule: "0 * * * *", Duration: 90 * time.Minute}}, "2026-11-20T12:45:00Z", c, ""},
		"weekdays":                         {[]syncpolicy.Window{{Schedule: "0 9 * * 1-5", Duration: time.Hour}}, "2026-11-20T10:00:00Z", c, "2026-11-23T09:00:00Z"},
		"leap day":                         {[]syncpolicy.Window{{Schedule: "0 0 29 2 *", Duration: time.Hour}}, "2026-11-20T10:00:00Z", c, "2028-02-29T00:00:00Z"},
		"winter in Berlin":                 {[]syncpolicy.Window{berlin}, "2026-11-20T01:29:00Z", c, "2026-11-20T01:30:00Z"},
		"summer in Berlin":                 {[]syncpolicy.Window{berlin}, "2026-07-20T00:29:00Z", c, "2026-07-20T00:30:00Z"},
		// On 29 March clocks go from 2:00 to 3:00, which is 1:00 in Greenwich.
		"the hour that is left out": {[]syncpolicy.Window{berlin}, "2026-03-28T03:00:00Z", c, "2026-03-29T01:00:00Z"},
		"opened at its end":         {[]syncpolicy.Window{berlin}, "2026-03-29T01:59:00Z", c, ""},
		"and closed an hour later":  {[]syncpolicy.Window{berlin}, "2026-03-29T02:00:00Z", c, "2026-03-30T00:30:00Z"},
		// On 25 October they go from 3:00 back to 2:00, which is 1:00 in Greenwich: 2:30 is at 0:30
		// and at 1:30.
		"the hour that comes twice":     {[]syncpolicy.Window{berlin}, "2026-10-25T00:00:00Z", c, "2026-10-25T00:30:00Z"},
		"opens again in the second one": {[]syncpolicy.Window{berlin}, "2026-10-25T02:29:00Z", c, ""},
		"and closes for that day":       {[]syncpolicy.Window{berlin}, "2026-10-25T02:30:00Z", c, "2026-10-26T01:30:00Z"},
		"midnight left out":             {[]syncpolicy.Window{{Schedule: "0 0 * * *", Duration: time.Hour, TimeZone: "Africa/Cairo"}}, "2026-04-23T20:00:00Z", c, "2026-04-23T22:00:00Z"},
		"half an hour left out":         {[]syncpolicy.Window{{Schedule: "15 2 * * *", Duration: time.Hour, TimeZone: "Australia/Lord_Howe"}}, "2026-10-03T12:00:00Z", c, "2026-10-03T15:30:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cal, now := calendar(t, test.windows...), at(t, test.at)
			if got := cal.Open(now, test.why); got != (test.next == "") {
				t.Errorf("open: got %v, want %v", got, test.next == "")
			}
			want := now
			if test.next != "" {
				want = at(t, test.next)
			}
			if got, opens := cal.Next(now, test.why); !got.Equal(want) || !opens {
				t.Errorf("next: got %v, %v, want %v, true", got.UTC(), opens, want)
			}
		})
	}
}

func TestNeverOpen(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-11-20T12:00:00Z")
	always := syncpolicy.Window{Schedule: "* * * * *", Duration: time.Hour, Deny: true}
	if got, opens := calendar(t, always).Next(now, window.Change); opens || !got.After(now) {
		t.Errorf("got %v, %v, want a later time at which to look again, and no opening", got, opens)
	}
	never := syncpolicy.Window{Schedule: "0 0 30 2 *", Duration: time.Hour}
	if got, opens := calendar(t, never).Next(now, window.Change); opens || !got.IsZero() {
		t.Errorf("got %v, %v, want no time and no opening", got, opens)
	}
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	for want, w := range map[string]syncpolicy.Window{
		"read schedule":     {Schedule: "0 25 * * *", Duration: time.Hour},
		"names a time zone": {Schedule: "CRON_TZ=UTC 0 2 * * *", Duration: time.Hour},
		"find time zone":    {Schedule: "0 2 * * *", Duration: time.Hour, TimeZone: "Mars/Olympus"},
		"duration is 0s":    {Schedule: "0 2 * * *"},
	} {
		_, err := window.New([]syncpolicy.Window{nights, w})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "window 2: ") {
			t.Errorf("got %v, want an error about window 2 that holds %q", err, want)
		}
	}
}

// TestEveryMinute compares a calendar with the plainest of all definitions, minute by minute around
// changes of clocks.
func TestEveryMinute(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "America/Santiago"}).Draw(t, "zone")
		hour, minute := rapid.IntRange(0, 23).Draw(t, "hour"), rapid.IntRange(0, 59).Draw(t, "minute")
		length := time.Duration(rapid.IntRange(1, 26*60).Draw(t, "length")) * time.Minute
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		c, err := window.New([]syncpolicy.Window{{Schedule: fmt.Sprintf("%d %d * * *", minute, hour), Duration: length, TimeZone: zone}})
		if err != nil {
			t.Fatal(err)
		}
		day := time.Date(2026, time.January, rapid.IntRange(1, 365).Draw(t, "day"), 0, 0, 0, 0, time.UTC)
		if _, change := day.In(location).ZoneBounds(); !change.IsZero() && rapid.Bool().Draw(t, "change of clocks") {
			day = change.Add(-4 * time.Hour).UTC()
		}
		const hours = 8 * time.Hour
		var starts []time.Time
		for m := day.Add(-3 * 24 * time.Hour); m.Before(day.Add(hours)); m = m.Add(time.Minute) {
			if begins(m.In(location), hour, minute) {
				starts = append(starts, m)
			}
		}
		for m := day; m.Before(day.Add(hours)); m = m.Add(time.Minute) {
			want := false
			for _, start := range starts {
				want = want || !start.After(m) && m.Before(start.Add(length))
			}
			if got := c.Open(m, window.Change); got != want {
				t.Fatalf("at %v: got %v, want %v", m.In(location), got, want)
			}
		}
	})
}

// begins reports whether a clock shows that time, or has just been put forward past it.
func begins(m time.Time, hour, minute int) bool {
	if m.Hour() == hour && m.Minute() == minute {
		return true
	}
	_, before := m.Add(-time.Minute).Zone()
	_, after := m.Zone()
	for offset := before; offset < after; offset += 60 { // what the clock would have shown
		shown := m.UTC().Add(time.Duration(offset) * time.Second)
		if shown.Hour() == hour && shown.Minute() == minute {
			return true
		}
	}
	return false
}
