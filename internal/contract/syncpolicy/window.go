// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package syncpolicy

import (
	"cmp"
	"strings"
	"time"
	_ "time/tzdata" // names of time zones mean the same on a machine that knows none

	"github.com/robfig/cron/v3"

	"github.com/leatdev/leat/internal/kit/fielderr"
)

const cronFields = cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow

// ValidateWindow checks one window. The error names a field below path.
func ValidateWindow(path string, w Window) error {
	return cmp.Or(
		validateSchedule(path+".schedule", w.Schedule),
		between(path+".duration", w.Duration, time.Minute, maxWindow),
		validateZone(path+".time_zone", w.TimeZone),
	)
}

// validateSchedule takes cron's five fields, and nothing of what the parser knows beside them: a
// zone inside a schedule would contradict the window's own.
func validateSchedule(path, schedule string) error {
	if schedule == "" {
		return fielderr.New(path, "is required")
	}
	parsed, err := cron.NewParser(cronFields).Parse(schedule)
	if err != nil || strings.Contains(schedule, "TZ=") {
		return fielderr.New(path, "%q is not a schedule of five fields such as \"0 22 * * 1-5\" (minute, hour, day of the month, month, day of the week)", schedule)
	}
	if parsed.Next(time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return fielderr.New(path, "%q never comes", schedule)
	}
	return nil
}

func validateZone(path, zone string) error {
	if zone == "Local" { // wherever the agent happens to be
		return fielderr.New(path, "is not known: %q", zone)
	}
	if _, err := time.LoadLocation(zone); err != nil {
		return fielderr.New(path, "is not known: %q; write one such as \"Europe/Berlin\"", zone)
	}
	return nil
}
