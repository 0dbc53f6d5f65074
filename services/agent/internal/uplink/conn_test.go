// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"testing"
)

// TestF43ServerForTheHubHasNoLimitForWholeRequests checks the settings of a connection's server:
// one limit would end all streams of all people at once.
func TestF43ServerForTheHubHasNoLimitForWholeRequests(t *testing.T) {
	t.Parallel()
	if s := settings(); s.WriteTimeout <= 0 || s.PingAfter <= 0 || s.PingTimeout <= 0 {
		t.Errorf("got %+v, want limits for writes and pings: a hub that is gone must be noticed", s)
	}
}
