// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package objectname

import "strings"

const (
	// hyphen is the character of runs, and hostMark separates the project from the name in a host.
	hyphen   = "-"
	hostMark = hyphen + hyphen
	// punycode begins labels that browsers read as a name in another script (RFC 5890).
	punycode = "xn--"
)

// HostLabel returns the DNS label that stands for a path in a host name: NAME for an object of the
// project default, and PROJECT--NAME for any other. A run of n hyphens in a name is written as
// 2n-1, so that two paths never share a label: a-b stays a-b, and a--b becomes a---b. Because it is
// one label, no object's host is the parent domain of another's, and a wildcard certificate covers
// all of them. ok is false if no label can stand for the path: it would be longer than MaxLabel, or
// begin like an internationalized name.
func HostLabel(path string) (label string, ok bool) {
	if !IsPath(path) {
		return "", false
	}
	project, name, isQualified := strings.Cut(path, mark)
	label = stretched(project)
	if isQualified {
		label += hostMark + stretched(name)
	}
	return label, len(label) <= MaxLabel && !strings.HasPrefix(label, punycode)
}

// ParseHostLabel returns the path for which a label stands: the reverse of HostLabel. ok is false,
// and the path empty, for a text that HostLabel does not return.
func ParseHostLabel(text string) (path string, ok bool) {
	if len(text) > MaxLabel || strings.Contains(text, mark) || strings.HasPrefix(text, punycode) {
		return "", false
	}
	var b strings.Builder
	for rest := text; rest != ""; {
		word, _, _ := strings.Cut(rest, hyphen)
		b.WriteString(word)
		after := strings.TrimLeft(rest[len(word):], hyphen)
		switch run := len(rest) - len(word) - len(after); {
		case run == len(hostMark):
			b.WriteString(mark)
		case run > 0 && run%2 == 0:
			return "", false
		default:
			b.WriteString(strings.Repeat(hyphen, (run+1)/2))
		}
		rest = after
	}
	if path = b.String(); !IsPath(path) {
		return "", false
	}
	return path, true
}

// stretched returns a name whose runs of hyphens are as long as in a host's label: odd, so that
// none is hostMark.
func stretched(name string) string {
	var b strings.Builder
	for i := range len(name) {
		b.WriteByte(name[i])
		if i > 0 && name[i] == hyphen[0] && name[i-1] == hyphen[0] {
			b.WriteString(hyphen)
		}
	}
	return b.String()
}
