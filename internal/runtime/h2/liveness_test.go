// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/h2"
)

// TestLivenessOfPeers requires that a peer is asked once after a silence of 20 seconds, and given
// up if it is silent for 15 more.
func TestLivenessOfPeers(t *testing.T) {
	t.Parallel()
	const second = time.Second
	for name, test := range map[string]struct {
		heard, pinged time.Duration // before now; zero: not asked yet
		ping          bool
		next          time.Duration
	}{
		"heard just now":                      {0, 0, false, 20 * second},
		"silent for a while":                  {15 * second, 0, false, 5 * second},
		"silent for long":                     {20 * second, 0, true, 15 * second},
		"asked, and may still answer":         {25 * second, 5 * second, false, 10 * second},
		"asked, and has answered":             {2 * second, 5 * second, false, 18 * second},
		"asked before it was heard":           {21 * second, 60 * second, true, 15 * second},
		"asked, and has not answered":         {35 * second, 15 * second, false, 0},
		"asked, and the check comes too late": {90 * second, 70 * second, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			var pinged time.Time
			if test.pinged > 0 {
				pinged = now.Add(-test.pinged)
			}
			ping, next := h2.CheckLiveness(20*second, 15*second, pinged, now.Add(-test.heard), now)
			want(t, "PING", ping, test.ping)
			want(t, "next check", next, test.next)
		})
	}
}
