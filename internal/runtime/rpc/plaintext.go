// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"fmt"
	"net/netip"
	"net/url"

	"github.com/leatdev/leat/internal/runtime/config"
)

// Plaintext is whether services may send tokens over connections without TLS.
type Plaintext bool

// Bind binds the setting.
func (p *Plaintext) Bind(s *config.Set) {
	s.Bool((*bool)(p), "allow-plaintext-services", false,
		"also send this service's tokens to the hub's other services over http:// beyond this machine; for networks that are protected otherwise")
}

// Check returns an error if a token must not be sent to a URL: the URL is http://, its host is not
// this machine, and plaintext is not allowed. The only name that counts as this machine is
// "localhost".
func (p Plaintext) Check(u *url.URL) error {
	if bool(p) || u.Scheme == "https" || isThisMachine(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("%s is not https://, and service tokens must not be read on the way: "+
		"use TLS, or set --allow-plaintext-services where the network is protected otherwise", u.Redacted())
}

func isThisMachine(host string) bool {
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
