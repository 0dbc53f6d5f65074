// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package submodule

import (
	"net/url"
	"strings"
)

// usualPorts are the ports that a URL need not name.
var usualPorts = map[string]string{"https": "443", "http": "80", "ssh": "22"}

// origin is who answers at a URL.
type origin struct{ scheme, user, host, port string }

// originOf reads https://…, http://…, ssh://… and user@host:path. ok is false for everything else.
func originOf(address string) (o origin, ok bool) {
	if !strings.Contains(address, "://") {
		user, host, _, ok := cutShort(address)
		return origin{scheme: "ssh", user: user, host: strings.ToLower(host), port: "22"}, ok
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return origin{}, false
	}
	o = origin{scheme: strings.ToLower(u.Scheme), host: strings.ToLower(u.Hostname()), port: u.Port()}
	usual, known := usualPorts[o.scheme]
	if o.port == "" {
		o.port = usual
	}
	if o.scheme == "ssh" { // elsewhere a user is part of a credential
		o.user = u.User.Username()
	}
	return o, known
}

// cutShort takes user@host:path apart.
func cutShort(address string) (user, host, path string, ok bool) {
	before, path, ok := strings.Cut(address, ":")
	user, host, at := strings.Cut(before, "@")
	return user, host, path, ok && at && host != "" && !strings.Contains(before, "/")
}

// sameHost reports whether one credential may be sent to both: same scheme, host and port, and for
// SSH the same user.
func sameHost(a, b string) bool {
	x, okX := originOf(a)
	y, okY := originOf(b)
	return okX && okY && x == y
}

// resolve returns the URL that .gitmodules means, where the repository that has it is at base.
// Relative ones are resolved as git does, but never to another host.
func resolve(base, address string) (string, string) {
	if !strings.HasPrefix(address, "./") && !strings.HasPrefix(address, "../") {
		if _, ok := originOf(address); !ok {
			return "", "Its URL in .gitmodules is not one of https, http and ssh."
		}
		return address, ""
	}
	at, separator := strings.TrimRight(base, "/"), "/"
	rest := address
	for {
		if after, ok := strings.CutPrefix(rest, "../"); ok {
			at, separator = parent(at)
			rest = after
			continue
		}
		after, ok := strings.CutPrefix(rest, "./")
		if !ok {
			break
		}
		rest = after
	}
	joined := at + separator + strings.TrimSuffix(rest, "/")
	if !sameHost(base, joined) || strings.Contains(rest, "../") {
		return "", "Its relative URL in .gitmodules leads out of the host of the repository that has it."
	}
	return joined, ""
}

// parent cuts the last folder off a URL, and returns what comes between the rest and another
// folder. Where there is no folder left the rest is no URL any more.
func parent(address string) (rest, separator string) {
	if i := strings.LastIndexByte(address, '/'); i >= 0 {
		return address[:i], "/"
	}
	if i := strings.LastIndexByte(address, ':'); i >= 0 {
		return address[:i], ":"
	}
	return "", "/"
}
