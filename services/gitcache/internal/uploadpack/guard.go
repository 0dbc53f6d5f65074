// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/leatdev/leat/internal/dialguard"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Committers choose URLs: those of submodules. Operators of upstreams choose URLs as well: where
// they redirect to, and where their LFS objects are. Such URLs must not lead to services that
// listen only on this machine or its link. The URL that an administrator wrote may lead there: its
// host and port are dialled whatever address they have.

// written returns the URLs that an administrator wrote for a definition: its own URL, or that of
// its root if it is a submodule.
func (c *Client) written(def mirror.Definition) []string {
	if def.ParentUID == "" {
		return []string{def.URL}
	}
	if root, ok := c.root(def.ParentUID); ok {
		return []string{root}
	}
	return nil
}

// addresses returns the host:port of each URL.
func addresses(urls []string) map[string]bool {
	all := make(map[string]bool, len(urls))
	for _, u := range urls {
		endpoint, err := transport.NewEndpoint(u)
		if err != nil {
			continue
		}
		port := endpoint.Port
		if port == 0 {
			port = map[string]int{"https": 443, "http": 80, "ssh": sshPort}[endpoint.Protocol]
		}
		host := strings.TrimSuffix(strings.TrimPrefix(endpoint.Host, "["), "]")
		all[strings.ToLower(net.JoinHostPort(host, fmt.Sprint(port)))] = true
	}
	return all
}

// direct connects without a proxy.
func (r *route) direct(ctx context.Context, address string) (net.Conn, error) {
	if r.written[strings.ToLower(address)] {
		return r.dialer.DialContext(ctx, "tcp", address)
	}
	return r.outside.DialContext(ctx, "tcp", address)
}

// checkProxied returns an error if the proxy must not be asked for address. The proxy resolves
// names, so checkProxied rejects only literal addresses and names with a fixed meaning. The proxy's
// own rules decide about all others.
func (r *route) checkProxied(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil || r.written[strings.ToLower(address)] {
		return err
	}
	if literal, err := netip.ParseAddr(host); err == nil {
		return r.judge.Check(literal)
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	isLocal := name == "localhost" || strings.HasSuffix(name, ".localhost") || name == "metadata" || name == "metadata.google.internal"
	if isLocal && !r.judge.AllowLocal {
		return fmt.Errorf("%w: %s", dialguard.ErrLocal, host)
	}
	return nil
}
