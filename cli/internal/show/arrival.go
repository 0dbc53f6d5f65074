// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"strings"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// Arrival returns in two lines how long a commit took to be applied and to become healthy. It is empty for
// an answer without that, as older hubs give it.
func Arrival(arrival *fleetv1.CommitArrival) string {
	return arrivalLine("applied", arrival.GetApplied()) + arrivalLine("healthy", arrival.GetHealthy())
}

// arrivalLine returns "" if no service counts.
func arrivalLine(what string, times *fleetv1.ArrivalTimes) string {
	count := times.GetCount()
	if count+times.GetPending()+times.GetUnknown() == 0 {
		return ""
	}
	parts := []string{fmt.Sprintf("%d measured", count)}
	if count > 0 {
		parts = []string{
			"50 % in " + took(times.GetP50()).text, "90 % in " + took(times.GetP90()).text, "99 % in " + took(times.GetP99()).text,
			fmt.Sprintf("all %d measured in %s", count, took(times.GetMax()).text),
		}
		if slowest := times.GetSlowest(); count > 1 && len(slowest) > 0 {
			parts[3] += " (" + slowest[0].GetRef() + ")"
		}
	}
	if n := times.GetPending(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d not yet", n))
	}
	if n := times.GetUnknown(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d not known", n))
	}
	return what + ": " + strings.Join(parts, ", ") + "\n"
}
