// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package waiting_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/kit/waiting"
)

func TestLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var line waiting.Line
		want := func(when string, n int, age time.Duration) {
			t.Helper()
			if line.Len() != n || line.Age() != age {
				t.Errorf("%s: got %d, the first since %v, want %d since %v", when, line.Len(), line.Age(), n, age)
			}
		}
		pass := func(d time.Duration) { <-time.After(d) }
		want("before anybody joins", 0, 0)
		first := line.Join()
		pass(time.Minute)
		second := line.Join()
		pass(time.Second)
		third := line.Join()
		want("with three", 3, 61*time.Second)
		second()
		want("without the second", 2, 61*time.Second)
		first()
		pass(time.Second)
		want("without the first", 1, time.Second)
		first()
		second()
		want("after they left twice", 1, time.Second)
		third()
		want("after all left", 0, 0)
	})
}
