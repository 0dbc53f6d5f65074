// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package credfile

import (
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/upstream"
)

// location is a URL taken apart, so that prefixes end where hosts and folders end.
type location struct {
	scheme, user, host, port string
	segments                 []string
}

// parseLocation reads http(s)://…, ssh://… and user@host:path. The errors never hold the text,
// which may hold a password. Paths that a server could read as another folder than we do are
// refused.
func parseLocation(text string) (location, error) {
	if !strings.Contains(text, "://") {
		address, path, ok := strings.Cut(text, ":")
		if !ok || !strings.Contains(address, "@") || strings.Contains(address, "/") {
			return location{}, errors.New("want https://…, http://…, ssh://… or user@host:path")
		}
		text = "ssh://" + address + "/" + strings.TrimPrefix(path, "/")
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return location{}, errors.New("not a URL with a host")
	}
	l := location{scheme: strings.ToLower(u.Scheme), user: u.User.Username(), host: strings.ToLower(u.Hostname()), port: u.Port()}
	defaultPort, known := map[string]string{
		"https": "443", "http": "80", "ssh": "22", upstream.SchemeOCI: "443", upstream.SchemeOCIPlain: "80",
	}[l.scheme]
	_, password := u.User.Password()
	switch {
	case !known:
		return location{}, errors.New("its scheme is not one of https, http, ssh, oci and oci+http")
	case password || (l.user != "" && l.scheme != "ssh"):
		return location{}, errors.New("it holds credentials")
	case u.RawQuery != "" || u.Fragment != "":
		return location{}, errors.New("it has a query or a fragment")
	}
	if l.port == "" {
		l.port = defaultPort
	}
	escaped := strings.ToLower(u.EscapedPath())
	if strings.Contains(escaped, "%2f") || strings.Contains(escaped, "%5c") {
		return location{}, errors.New("it hides a slash")
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return location{}, errors.New("it holds a segment . or .. in its path")
		}
		if segment != "" {
			l.segments = append(l.segments, segment)
		}
	}
	return l, nil
}

// holds reports whether a URL is the prefix or below it. A prefix without a user is for all users.
func (l location) holds(at location) bool {
	return l.scheme == at.scheme && l.host == at.host && l.port == at.port && (l.user == "" || l.user == at.user) &&
		len(at.segments) >= len(l.segments) && slices.Equal(l.segments, at.segments[:len(l.segments)])
}

func (l location) equal(other location) bool {
	return l.holds(other) && other.holds(l)
}

// length orders prefixes: more folders first, and of equals the one that names a user.
func (l location) length() int {
	n := 2 * len(l.segments)
	if l.user != "" {
		n++
	}
	return n
}

// String writes the location as a URL.
func (l location) String() string {
	u := url.URL{Scheme: l.scheme, Host: net.JoinHostPort(l.host, l.port), Path: "/" + strings.Join(l.segments, "/")}
	if l.user != "" {
		u.User = url.User(l.user)
	}
	return u.String()
}

// kind returns the type of the repositories at a location. Repositories of Git and Helm share
// schemes, and can have the same credentials there.
func (l location) kind() upstream.Type {
	if l.scheme == upstream.SchemeOCI || l.scheme == upstream.SchemeOCIPlain {
		return upstream.TypeOCI
	}
	return upstream.TypeGit
}

func (l location) example() string { return strings.TrimSuffix(l.String(), "/") + "/repository" }
