// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package dialguard_test

import (
	"net/netip"
	"testing"

	"github.com/leatdev/leat/internal/dialguard"
)

func TestLocal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"127.0.0.1": true, "127.8.0.1": true, "::1": true, "::ffff:127.0.0.1": true, "0.0.0.0": true, "::": true,
		"169.254.169.254": true, "::ffff:169.254.169.254": true, "fe80::1": true, "fe80::1%eth0": true, "224.0.0.1": true, "ff02::1": true,
		"10.0.0.1": false, "192.168.1.1": false, "fd00::1": false, "203.0.113.9": false, "2001:db8::1": false,
	} {
		if got := dialguard.Local(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: got %t, want %t", text, got, want)
		}
	}
	if !dialguard.Local(netip.Addr{}) {
		t.Error("no address at all was let through")
	}
	if dialguard.Control("tcp4", "10.0.0.1:443", nil) != nil || dialguard.Control("tcp4", "127.0.0.1:443", nil) == nil || dialguard.Control("tcp", "x", nil) == nil {
		t.Error("want addresses with ports judged as those without")
	}
}
