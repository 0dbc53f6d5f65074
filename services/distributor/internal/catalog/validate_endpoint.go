// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/leatdev/leat/internal/dialguard"
	"github.com/leatdev/leat/internal/fielderr"
)

// maxHostBytes bounds a host's name, as DNS does.
const maxHostBytes = 253

// validateEndpoint checks where an agent is dialled: host:port, or nothing.
func validateEndpoint(field, endpoint string) error {
	if endpoint == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return fielderr.New(field, "%q is not host:port", endpoint)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fielderr.New(field, "%q has no port between 1 and 65535", endpoint)
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	if len(host) > maxHostBytes || !dnsDomain.MatchString(strings.ToLower(host)) {
		return fielderr.New(field, "%q is neither an IP address nor a DNS name", host)
	}
	return nil
}

// isLocal reports whether a host is an address of the hub's own machine or link, or the name of one that everybody knows.
func isLocal(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && dialguard.Local(address) || strings.EqualFold(host, "localhost")
}

func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "" // Validate has refused it
	}
	return u.Hostname()
}
