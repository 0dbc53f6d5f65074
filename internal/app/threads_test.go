// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package app

import "testing"

func TestThreadsFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name               string
		given              string
		processors, chosen int
		want               int
	}{
		{"one processor", "", 1, 1, 3},
		{"few processors", "", 2, 2, 4},
		{"the most of few processors", "", 8, 8, 10},
		{"many processors", "", 9, 9, 0},
		{"a container that may use fewer processors", "", 8, 2, 0},
		{"somebody chose", "2", 2, 2, 0},
	} {
		if got := threadsFor(tt.given, tt.processors, tt.chosen); got != tt.want {
			t.Errorf("%s: got %d threads, want %d", tt.name, got, tt.want)
		}
	}
}
