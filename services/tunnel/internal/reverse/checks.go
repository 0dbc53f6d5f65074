// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"net/netip"
	"sync"
)

// maxChecks bounds the tokens of one source that are verified at once. Verifying takes less than
// 0.1 ms. A source reaches the bound only while the distributor does not return its keys, and each
// check waits for them.
const maxChecks = 256

// checks bounds concurrent token checks for each source. Any caller may cause one, so checks take
// no turn of the agents' [Gate]. Refused tokens are not counted against their source either,
// because behind a load balancer or NAT honest agents share it. The map holds only sources with
// checks under way. The zero value is ready to use. It is safe for concurrent use.
type checks struct {
	mu       sync.Mutex
	underWay map[string]int
}

// begin records a check for a caller at an address such as "192.0.2.1:4711". It fails with
// RATE_LIMITED if the source has too many. Otherwise the caller must call end once.
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

// sourceOf returns the host of an address without its port. For IPv6 it returns the /64 network,
// because its holder may use any address in it.
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
