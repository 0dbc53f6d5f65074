// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package dialguard decides which addresses a service must not dial on behalf of others: the
// addresses of its own machine, and of its link, such as a cloud's metadata server.
package dialguard

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// metadata lists the networks of clouds' metadata servers that are not link-local.
var metadata = []netip.Prefix{
	// AWS over IPv6: metadata at ::254, EKS Pod Identity at ::23, time at ::123, and DNS at ::253.
	netip.MustParsePrefix("fd00:ec2::/32"),
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google Cloud, over IPv6
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle Cloud
}

var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	siteLocal   = netip.MustParsePrefix("fec0::/10")
	// embedding lists the networks whose addresses embed IPv4 addresses, each with the index of the
	// first embedded byte.
	embedding = []struct {
		netip.Prefix
		at int
	}{
		{netip.MustParsePrefix("64:ff9b::/96"), 12},
		{netip.MustParsePrefix("64:ff9b:1::/48"), 12},
		{netip.MustParsePrefix("2002::/16"), 2},
		{netip.MustParsePrefix("::/96"), 12},
	}
	// shared lists private networks that netip does not count as private: the ones of carriers and of
	// benchmarks.
	shared = []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("198.18.0.0/15")}
)

// Local reports whether an address is loopback, link-local, multicast, broadcast, unspecified, or a
// cloud's metadata server. It also reports true for an IPv6 address that embeds such an IPv4
// address.
func Local(address netip.Addr) bool {
	address = address.WithZone("").Unmap()
	return !address.IsValid() || address.IsLoopback() || address.IsUnspecified() || address.IsMulticast() || address.IsLinkLocalUnicast() ||
		thisNetwork.Contains(address) || siteLocal.Contains(address) || address == netip.AddrFrom4([4]byte{255, 255, 255, 255}) ||
		isIn(metadata, address) || isEmbedded(address, Local)
}

// Private reports whether an address belongs to a network that is not routed on the internet, such
// as 10.0.0.0/8 and fd00::/8.
func Private(address netip.Addr) bool {
	address = address.WithZone("").Unmap()
	return address.IsPrivate() || isIn(shared, address) || isEmbedded(address, Private)
}

func isIn(networks []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(address) })
}

// isEmbedded reports whether an IPv6 address embeds an IPv4 address for which is returns true.
func isEmbedded(address netip.Addr, is func(netip.Addr) bool) bool {
	for _, e := range embedding {
		if e.Contains(address) {
			whole := address.As16()
			return is(netip.AddrFrom4([4]byte(whole[e.at : e.at+4])))
		}
	}
	return false
}

var (
	// ErrLocal is in the chain of the error for a local address that must not be dialled.
	ErrLocal = errors.New("an address of this machine or its link")
	// ErrPrivate is in the chain of the error for a private address that a [Guard] refuses.
	ErrPrivate = errors.New("an address of a private network")
)

// Control refuses such addresses as net.Dialer.Control, where names have become addresses.
func Control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || Local(to.Addr()) {
		return fmt.Errorf("%w: %s", ErrLocal, address)
	}
	return nil
}

// Guard checks addresses that an untrusted party has chosen. Its zero value refuses the addresses
// for which [Local] returns true, and this machine's own addresses. It is safe for concurrent use.
type Guard struct {
	// AllowLocal allows local addresses; for tests and development.
	AllowLocal bool
	// RefusePrivate also refuses private networks.
	RefusePrivate bool
	// Allowed are networks that the operator lists: their addresses may be dialled, whatever they are.
	Allowed []netip.Prefix
}

// Check returns an error that matches [ErrLocal] or [ErrPrivate] for an address that must not be
// dialled.
func (g Guard) Check(address netip.Addr) error {
	switch {
	case isIn(g.Allowed, address.WithZone("").Unmap()):
		return nil
	case !g.AllowLocal && (Local(address) || own(address)):
		return fmt.Errorf("%w: %s", ErrLocal, address)
	case g.RefusePrivate && Private(address):
		return fmt.Errorf("%w: %s", ErrPrivate, address)
	}
	return nil
}

// Control applies [Guard.Check] as net.Dialer.Control.
func (g Guard) Control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s", ErrLocal, address)
	}
	return g.Check(to.Addr())
}

// own reports whether an address belongs to this machine. Interfaces come and go, so own lists them
// on each call.
func own(address netip.Addr) bool {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	address = address.WithZone("").Unmap()
	return slices.ContainsFunc(addresses, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		if !ok {
			return false
		}
		mine, ok := netip.AddrFromSlice(network.IP)
		return ok && mine.Unmap() == address
	})
}
