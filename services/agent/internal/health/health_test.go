// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"testing"

	"github.com/leatdev/leat/services/agent/internal/health"
)

func TestCounts(t *testing.T) {
	t.Parallel()
	var got health.Counts
	for state := health.Unknown; state <= health.Missing; state++ {
		got.Add(state)
	}
	if want := (health.Counts{Total: 6, Healthy: 1, Progressing: 3, Failed: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := health.State(42).String(); got != "State(42)" {
		t.Errorf("got %q, want State(42)", got)
	}
}
