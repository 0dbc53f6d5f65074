// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package dialguard_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/leatdev/leat/internal/runtime/dialguard"
)

func TestLocal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"127.0.0.1": true, "127.8.0.1": true, "::1": true, "::ffff:127.0.0.1": true, "0.0.0.0": true, "::": true,
		"169.254.169.254": true, "::ffff:169.254.169.254": true, "fe80::1": true, "fe80::1%eth0": true, "224.0.0.1": true, "ff02::1": true,
		"0.1.2.3": true, "255.255.255.255": true, "fec0::1": true, "100.100.100.200": true, "168.63.129.16": true, "fd00:ec2::254": true,
		"fd00:ec2::23": true, "fd00:ec2::123": true, "fd00:ec2::253": true, "fd00:ec3::1": false,
		"64:ff9b::127.0.0.1": true, "64:ff9b::169.254.169.254": true, "64:ff9b:1::7f00:1": true, "2002:7f00:1::": true, "::127.0.0.1": true,
		"64:ff9b::8.8.8.8": false, "2002:808:808::1": false,
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
		t.Error("want the same result with and without a port")
	}
}

// TestSecGuard checks addresses chosen by an attacker: local ones are always refused, private ones
// only with RefusePrivate.
func TestSecGuard(t *testing.T) {
	t.Parallel()
	var strict, strictest, lenient dialguard.Guard
	strictest.RefusePrivate, lenient.AllowLocal = true, true
	strictest.Allowed = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16"), netip.MustParsePrefix("fd12:9::/32")}
	for address, want := range map[string]struct{ strict, strictest, lenient bool }{
		"127.0.0.1:80": {false, false, true}, "[::1]:443": {false, false, true}, "169.254.169.254:80": {false, false, true},
		"[::ffff:127.0.0.1]:80": {false, false, true}, "nonsense": {false, false, false},
		"10.1.2.3:80": {true, false, true}, "100.64.0.1:80": {true, false, true}, "[fd12::1]:80": {true, false, true},
		"[64:ff9b::10.0.0.1]:80": {true, false, true},
		"10.9.1.1:80":            {true, true, true}, "[::ffff:10.9.1.1]:80": {true, true, true}, "[fd12:9::1]:80": {true, true, true},
		"203.0.113.9:443": {true, true, true}, "[2001:db8::1]:443": {true, true, true},
	} {
		for name, c := range map[string]struct {
			guard dialguard.Guard
			pass  bool
		}{"zero": {strict, want.strict}, "strictest": {strictest, want.strictest}, "lenient": {lenient, want.lenient}} {
			err := c.guard.Control("tcp", address, nil)
			if (err == nil) != c.pass || (err != nil && !errors.Is(err, dialguard.ErrLocal) && !errors.Is(err, dialguard.ErrPrivate)) {
				t.Errorf("%s, %s: got %v, want it to pass: %t", name, address, err, c.pass)
			}
		}
	}
	mine, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mine {
		network, ok := m.(*net.IPNet)
		if !ok {
			continue
		}
		if address, _ := netip.AddrFromSlice(network.IP); strict.Check(address) == nil {
			t.Errorf("got this machine's own address %s through", address)
		}
	}
}
