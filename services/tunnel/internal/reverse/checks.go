// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"net/netip"
	"sync"
)

// maxChecks bounds the tokens of one source that are checked at once. A check takes less than 0.1 ms, so that a source has as many under
// way only while the distributor does not give out its keys, and each check waits for them.
const maxChecks = 256

// checks bounds the checks of tokens, for each source. Anybody may cause one, and so they take no turn of the agents' [Gate]; refused
// tokens are not counted against their source either, since behind a load balancer or NAT honest agents have the same one. The map holds
// only sources of checks that are under way. The zero value is ready to use. It is safe for concurrent use.
type checks struct {
	mu       sync.Mutex
	underWay map[string]int
}

// begin notes a check for a caller at an address such as "192.0.2.1:4711". It fails with RATE_LIMITED when the source has too many; else
// end must be called once.
func (c *checks) begin(address string) (end func(), err error) {
	source := sourceOf(address)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.underWay[source] >= maxChecks {
		return nil, rateLimited("too many tokens from this address are being checked; connect again later")
	}
	if c.underWay == nil {
		c.underWay = map[string]int{}
	}
	c.underWay[source]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.underWay[source]--; c.underWay[source] == 0 {
			delete(c.underWay, source)
		}
	}, nil
}

// sourceOf returns the host of an address without its port. The holder of an IPv6 network has all addresses of its last 64 bits, which
// are one source.
func sourceOf(address string) string {
	from, err := netip.ParseAddrPort(address)
	if err != nil {
		return address
	}
	addr := from.Addr().Unmap()
	if addr.Is6() {
		return netip.PrefixFrom(addr.WithZone(""), 64).Masked().String()
	}
	return addr.String()
}
