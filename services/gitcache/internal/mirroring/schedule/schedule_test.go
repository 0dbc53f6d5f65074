// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"testing"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/mirroring/schedule"
)

// TestDue has every rule that moves the next fetch. Jitter makes its time a range.
func TestDue(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	after := schedule.Schedule{Interval: time.Minute}.Succeed(now)
	hourly := schedule.Schedule{Interval: time.Hour}.Succeed(now)
	for name, test := range map[string]struct {
		schedule schedule.Schedule
		min, max time.Duration // from now; both 0: at once
		isNever  bool
	}{
		"a poll":                             {schedule: after, min: 45 * time.Second, max: 75 * time.Second},
		"polled at once":                     {schedule: after.PollNow(now)},
		"requested":                          {schedule: after.Request(now.Add(time.Second)), min: time.Second, max: time.Second},
		"requested twice":                    {schedule: after.Request(now.Add(time.Second)).Request(now), min: time.Second, max: time.Second},
		"requested for after the poll":       {schedule: after.Request(now.Add(time.Hour)), min: 45 * time.Second, max: 75 * time.Second},
		"request answered":                   {schedule: after.Request(now).DropRequest(), min: 45 * time.Second, max: 75 * time.Second},
		"a first failure":                    {schedule: hourly.Fail(now, 0), min: time.Second, max: 5 * time.Second},
		"failures wait no longer than polls": {schedule: failed(after, 20, now), min: time.Second, max: time.Minute},
		"failures wait five minutes at most": {schedule: failed(hourly, 20, now), min: time.Second, max: 5 * time.Minute},
		"the upstream asked for a time":      {schedule: after.Fail(now, 10*time.Minute), min: 10 * time.Minute, max: 13 * time.Minute},
		"it asked for a day":                 {schedule: after.Fail(now, 24*time.Hour), min: time.Hour, max: 75 * time.Minute},
		"and a request does not shorten it":  {schedule: after.Fail(now, 10*time.Minute).Request(now), min: 10 * time.Minute, max: 13 * time.Minute},
		"nor does a poll":                    {schedule: after.Fail(now, 10*time.Minute).PollNow(now), min: 10 * time.Minute, max: 13 * time.Minute},
		"but another upstream does":          {schedule: after.Fail(now, 10*time.Minute).Restart(now)},
		"and so does success":                {schedule: after.Fail(now, 10*time.Minute).Succeed(now), min: 45 * time.Second, max: 75 * time.Second},
		"the host wants to be left alone":    {schedule: after.Postpone(now, now.Add(20*time.Minute)), min: 20 * time.Minute, max: 24 * time.Minute},
		"for no time at all":                 {schedule: after.PollNow(now).Postpone(now, now), min: time.Second, max: 1200 * time.Millisecond},
		"a shorter interval":                 {schedule: hourly.WithInterval(time.Minute, now), min: 45 * time.Second, max: 75 * time.Second},
		"a longer interval":                  {schedule: after.WithInterval(time.Hour, now), min: 45 * time.Second, max: 75 * time.Second},
		"a shorter interval while it fails":  {schedule: hourly.Fail(now, 10*time.Minute).WithInterval(time.Second, now), min: 10 * time.Minute, max: 13 * time.Minute},
		"suspended":                          {schedule: suspended(after.Request(now).PollNow(now)), isNever: true},
	} {
		due, ok := test.schedule.Due()
		if wait := due.Sub(now); ok == test.isNever || ok && (wait < test.min || wait > test.max) {
			t.Errorf("%s: got due in %s (%v), want %s to %s", name, wait, ok, test.min, test.max)
		}
		if ok && (test.schedule.IsDue(due.Add(-1)) || !test.schedule.IsDue(due)) {
			t.Errorf("%s: got due too early or too late, want it at %s sharp", name, due)
		}
	}
}

func failed(s schedule.Schedule, times int, now time.Time) schedule.Schedule {
	for range times {
		s = s.Fail(now, 0)
	}
	return s
}

func suspended(s schedule.Schedule) schedule.Schedule {
	s.IsSuspended = true
	return s
}

func TestAllowsFetchAt(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	plain := schedule.Schedule{Interval: time.Minute}.Succeed(now)
	for name, test := range map[string]struct {
		schedule schedule.Schedule
		want     bool
	}{
		"polling":                                {plain, true},
		"failing":                                {plain.Fail(now, 0), true},
		"failing since a request read its clock": {plain.Fail(now.Add(time.Second+time.Millisecond), 0), true},
		"suspended":                              {suspended(plain), false},
		"told to wait for long":                  {plain.Fail(now, time.Minute), false},
	} {
		if got := test.schedule.AllowsFetchAt(now.Add(time.Second)); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
