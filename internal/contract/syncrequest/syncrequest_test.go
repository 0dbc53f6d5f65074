// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package syncrequest_test

import (
	"testing"

	"github.com/leatdev/leat/internal/contract/syncrequest"
)

func TestRequests(t *testing.T) {
	t.Parallel()
	for _, want := range []bool{false, true} {
		first, second := syncrequest.New(want), syncrequest.New(want)
		if first == second {
			t.Errorf("got %q twice", first)
		}
		if got := syncrequest.Regenerates(first); got != want {
			t.Errorf("%q: got %v, want %v", first, got, want)
		}
	}
	if syncrequest.Regenerates("") {
		t.Error("no request regenerates")
	}
}
