// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package loopback_test

import (
	"testing"

	"github.com/leatdev/leat/internal/testkit/loopback"
)

// TestAddressesDiffer takes more addresses than could be free of repetitions by chance.
func TestAddressesDiffer(t *testing.T) {
	t.Parallel()
	const addresses = 1000
	seen := map[string]bool{}
	for range addresses {
		addr := loopback.Addr(t)
		if seen[addr] {
			t.Fatalf("%s was given twice", addr)
		}
		seen[addr] = true
	}
}
