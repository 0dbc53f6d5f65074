// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package dialguard says which addresses a service must not dial on somebody's behalf: those that mean its own machine, or whoever
// is on its link, such as a cloud's metadata server.
package dialguard

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// Local reports whether an address is loopback, link-local, multicast or unspecified.
func Local(address netip.Addr) bool {
	address = address.Unmap()
	return !address.IsValid() || address.IsLoopback() || address.IsUnspecified() || address.IsMulticast() || address.IsLinkLocalUnicast()
}

// ErrLocal is in the chain of the error for an address that must not be dialled.
var ErrLocal = errors.New("an address of this machine or its link")

// Control refuses such addresses as net.Dialer.Control, where names have become addresses.
func Control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || Local(to.Addr()) {
		return fmt.Errorf("%w: %s", ErrLocal, address)
	}
	return nil
}
