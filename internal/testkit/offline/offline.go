// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package offline prevents tests from reaching anything that they did not start themselves.
//
//	func TestMain(m *testing.M) { os.Exit(offline.Run(m)) }
package offline

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"testing"
)

// ErrRefused is in the chain of the error of a dial that would leave the machine.
var ErrRefused = errors.New("tests may only dial loopback")

// Run guards the process and runs the tests; pass the result to os.Exit. From then on
// http.DefaultTransport dials only loopback, and names are never looked up in DNS, so that other
// transports can reach only literal addresses and names of the hosts file.
func Run(m *testing.M) int {
	guardProcess()
	return m.Run()
}

// guardProcess changes globals, because it guards the whole process. It runs before any test.
func guardProcess() {
	if transport, ok := http.DefaultTransport.(*http.Transport); ok {
		transport.DialContext = DialContext
		transport.Proxy = nil
	}
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: refuse}
}

func refuse(_ context.Context, network, address string) (net.Conn, error) {
	return nil, fmt.Errorf("dial %s %s: %w", network, address, ErrRefused)
}

// DialContext dials loopback addresses and localhost, and refuses all others with [ErrRefused].
// Give it to a transport of a test's own.
func DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if !isLocal(network, address) {
		return refuse(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// Transport returns a new transport that dials loopback only.
func Transport() *http.Transport {
	return &http.Transport{DialContext: DialContext}
}

func isLocal(network, address string) bool {
	if network == "unix" {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
