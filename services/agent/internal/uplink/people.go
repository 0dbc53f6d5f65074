// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/leatdev/leat/internal/runtime/proxyheader"
)

// DefaultGroups is the pattern of the groups in which the hub may act unless the cluster's operator
// names others. Bindings do not grant any other groups.
const DefaultGroups = "leat:*"

// ownExtra is the prefix of the keys of attributes that the hub may set for a person. Clouds
// authorize by attributes of their own, such as the assertion of a user, so the hub must not set
// any of those.
const ownExtra = "leat.dev/"

// People bounds the identities under which the hub may act in the cluster. The agent enforces the
// bounds, because the right to impersonate users in RBAC does not allow exceptions: an attacker in
// a hub could act as system:kube-controller-manager. The agent always rejects identities of
// Kubernetes itself, whose names begin with "system:", whatever the lists hold. The zero value
// allows any user in the groups of [DefaultGroups].
type People struct {
	users  []pattern
	groups []pattern
}

// NewPeople returns the bounds for names of users and of groups. A name may hold one "*", which
// stands for any text. Without users, every user is allowed. Without groups, the groups of
// [DefaultGroups] are allowed.
func NewPeople(users, groups []string) (People, error) {
	var p People
	var errs []error
	for _, list := range []struct {
		texts []string
		to    *[]pattern
	}{{users, &p.users}, {groups, &p.groups}} {
		for _, text := range list.texts {
			parsed, err := parsePattern(text)
			if err != nil {
				errs = append(errs, err)
			}
			*list.to = append(*list.to, parsed)
		}
	}
	return p, errors.Join(errs...)
}

// pattern is a name, or the prefix and the suffix of names.
type pattern struct {
	prefix, suffix string
	open           bool // any text may be in between
}

func parsePattern(text string) (pattern, error) {
	prefix, suffix, open := strings.Cut(text, "*")
	switch {
	case text == "" || strings.Contains(suffix, "*") || !isClean(text):
		return pattern{}, fmt.Errorf("name %q: want a name, or one with a single * in it, such as leat:group:* or *@example.com", text)
	case isReserved(prefix):
		return pattern{}, fmt.Errorf("name %q: names that begin with %q are reserved for Kubernetes, and nobody can act under one", text, reservedPrefix)
	}
	return pattern{prefix: prefix, suffix: suffix, open: open}, nil
}

func (p pattern) matches(name string) bool {
	if !p.open {
		return name == p.prefix
	}
	return len(name) >= len(p.prefix)+len(p.suffix) && strings.HasPrefix(name, p.prefix) && strings.HasSuffix(name, p.suffix)
}

// allowed reports whether list allows name. An empty list allows every name.
func allowed(list []pattern, name string) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(p pattern) bool { return p.matches(name) })
}

var defaultGroups = []pattern{{prefix: strings.TrimSuffix(DefaultGroups, "*"), open: true}}

// refusal is the reason why a request must not be sent.
type refusal struct {
	class   string // of the metric
	message string
}

// check returns nil if the agent may send the request to the API server under the identity in its
// header.
func (p People) check(header http.Header) *refusal {
	users, uids := header[impersonateUser], header[impersonatePrefix+"Uid"]
	switch {
	case len(users) == 0 || users[0] == "":
		// Without a user the API server would see the agent, which has all rights.
		return &refusal{"nobody", "the request names no user to impersonate, which is a defect of the hub; report it"}
	case len(users) > 1 || len(uids) > 1:
		return &refusal{"malformed", "the request names more than one user, which is a defect of the hub; report it"}
	}
	if refused := checkNames("user", users, p.users, "LEAT_AGENT_ALLOWED_USERS"); refused != nil {
		return refused
	}
	groups := p.groups
	if len(groups) == 0 {
		groups = defaultGroups
	}
	if refused := checkNames("group", header[impersonatePrefix+"Group"], groups, "LEAT_AGENT_ALLOWED_GROUPS"); refused != nil {
		return refused
	}
	if refused := checkNames("uid", uids, nil, ""); refused != nil {
		return refused
	}
	return checkExtra(header)
}

// checkNames returns the refusal of the first name that is malformed, reserved or not on the list,
// or nil.
func checkNames(kind string, names []string, list []pattern, setting string) *refusal {
	for _, name := range names {
		switch {
		case !isClean(name):
			return &refusal{"malformed", fmt.Sprintf("the name %q of a %s is empty, or has a space at its ends or a control character, "+
				"which is a defect of the hub; report it", name, kind)}
		case isReserved(name):
			return &refusal{"reserved", fmt.Sprintf("the agent does not allow the %s %q: names that begin with %q are reserved for Kubernetes",
				kind, name, reservedPrefix)}
		case !allowed(list, name):
			return &refusal{"not_allowed", fmt.Sprintf("the agent does not allow the %s %q; an operator of the cluster can add it to %s",
				kind, name, setting)}
		}
	}
	return nil
}

// checkExtra rejects attributes that the hub has not defined.
func checkExtra(header http.Header) *refusal {
	for name := range header {
		encoded, isExtra := strings.CutPrefix(name, impersonatePrefix+"Extra-")
		if !isExtra {
			continue
		}
		// The API server decodes the key in the same way.
		key, err := url.PathUnescape(strings.ToLower(encoded))
		if err != nil || !isClean(key) || !strings.HasPrefix(key, ownExtra) {
			return &refusal{"extra", fmt.Sprintf("the agent does not allow the attribute %q of a person: the hub may only set those that begin with %q",
				encoded, ownExtra)}
		}
	}
	return nil
}

// reservedPrefix is the prefix of the names that Kubernetes reserves for itself.
const reservedPrefix = "system:"

// isReserved reports whether the API server, or a proxy before it, could read name as one with the
// reserved prefix. The prefix may have other case, or be behind spaces, or behind a comma, at which
// some proxies split a value.
func isReserved(name string) bool {
	for part := range strings.SplitSeq(name, ",") {
		part = strings.TrimLeftFunc(part, func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsGraphic(c) || c == utf8.RuneError })
		if hasPrefixFold(part, reservedPrefix) {
			return true
		}
	}
	return false
}

// hasPrefixFold reports whether text begins with an ASCII prefix under Unicode's simple folding,
// under which "ſ" is an "s".
func hasPrefixFold(text, prefix string) bool {
	end := 0
	for range len(prefix) {
		_, size := utf8.DecodeRuneInString(text[end:])
		end += size
	}
	return strings.EqualFold(text[:end], prefix)
}

// isClean reports whether every version of HTTP carries name unchanged. HTTP trims the values of
// headers.
func isClean(name string) bool {
	return name != "" && name == strings.TrimSpace(name) && !strings.ContainsFunc(name, unicode.IsControl) && utf8.ValidString(name)
}

// scrubKubernetes removes the caller's credentials and address, and keeps the caller's identity for
// the API server.
func scrubKubernetes(header http.Header) {
	for name := range header {
		if proxyheader.IsIdentity(name) && !isImpersonation(name) {
			delete(header, name)
		}
	}
}

// isImpersonation reports whether the API server uses the header for impersonation. scrubKubernetes
// removes headers that only look like it, so that a future meaning of them is not granted
// unnoticed.
func isImpersonation(name string) bool {
	switch name {
	case impersonateUser, impersonatePrefix + "Group", impersonatePrefix + "Uid":
		return true
	}
	return strings.HasPrefix(name, impersonatePrefix+"Extra-")
}
