// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pires/go-proxyproto"
)

const (
	// maxForwarded bounds how many entries of X-Forwarded-For are read, counted from the nearest.
	maxForwarded = 16
	// proxyHeaderTimeout is how long a trusted proxy may take to send its PROXY header.
	proxyHeaderTimeout = 5 * time.Second
)

// proxies are the load balancers that are trusted to report their callers' addresses.
type proxies struct {
	networks []netip.Prefix
}

// parseProxies parses addresses, and networks in CIDR notation.
func parseProxies(texts []string) (*proxies, error) {
	p := &proxies{}
	for _, text := range texts {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			address, addressErr := netip.ParseAddr(text)
			if addressErr != nil {
				return nil, fmt.Errorf("--trusted-proxies: got %q, want addresses or networks such as 10.0.0.0/8", text)
			}
			network = netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen())
		}
		p.networks = append(p.networks, network.Masked())
	}
	return p, nil
}

// includes reports whether an address belongs to a trusted proxy.
func (p *proxies) includes(address netip.Addr) bool {
	return p != nil && slices.ContainsFunc(p.networks, func(n netip.Prefix) bool { return n.Contains(address) })
}

// listen reads the PROXY header (HAProxy's PROXY protocol, versions 1 and 2) of connections from
// trusted proxies, which must send one. It does not read one from any other peer: such a header is
// not HTTP, and is answered 400.
func (p *proxies) listen(listener net.Listener) net.Listener {
	return &proxyproto.Listener{
		Listener: listener, ReadHeaderTimeout: proxyHeaderTimeout,
		ConnPolicy: func(options proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
			if p.includes(addressOf(options.Upstream)) {
				return proxyproto.REQUIRE, nil
			}
			return proxyproto.SKIP, nil
		},
	}
}

// peerOf returns the address of the machine at the other end of a connection. It never blocks,
// unlike RemoteAddr, which waits for the PROXY header if one is expected.
func peerOf(conn net.Conn) netip.Addr {
	conn = rawConn(conn)
	if c, ok := conn.(*turnConn); ok {
		conn = c.Conn
	}
	if proxied, ok := conn.(*proxyproto.Conn); ok {
		conn = proxied.Raw()
	}
	return addressOf(conn.RemoteAddr())
}

type clientKey struct{}

// wrap sets [ClientAddress] and Request.RemoteAddr to the caller's address if a trusted proxy has
// forwarded it. It reads X-Forwarded-For from the end: the first address that does not belong to a
// trusted proxy is the caller's. The caller may have made up the entries before it.
func (p *proxies) wrap(next http.Handler) http.Handler {
	if len(p.networks) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if address, ok := p.forwardedFor(r); ok {
			forwarded := r.WithContext(context.WithValue(r.Context(), clientKey{}, address))
			forwarded.RemoteAddr = netip.AddrPortFrom(address, 0).String()
			r = forwarded
		}
		next.ServeHTTP(w, r)
	})
}

// forwardedFor returns the caller's address as reported by trusted proxies. It reports false if the
// peer is not a trusted proxy, or if the header names no address.
func (p *proxies) forwardedFor(r *http.Request) (netip.Addr, bool) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !p.includes(peer.Addr().Unmap()) {
		return netip.Addr{}, false
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	slices.Reverse(hops)
	found := netip.Addr{}
	for _, hop := range hops[:min(len(hops), maxForwarded)] {
		address, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		if found = address.Unmap().WithZone(""); !p.includes(found) {
			break
		}
	}
	return found, found.IsValid()
}

// ClientAddress returns the address of the caller: the peer's, or the one that a trusted proxy has
// forwarded. It reports false for a request over a transport without addresses.
func ClientAddress(r *http.Request) (netip.Addr, bool) {
	if address, ok := r.Context().Value(clientKey{}).(netip.Addr); ok {
		return address, true
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	return peer.Addr().Unmap().WithZone(""), true
}

// addressOf returns the IP address of a connection's peer. The result is invalid for a transport
// without IP addresses, as in a test.
func addressOf(addr net.Addr) netip.Addr {
	if addr == nil {
		return netip.Addr{}
	}
	port, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.Addr{}
	}
	return port.Addr().Unmap().WithZone("")
}
