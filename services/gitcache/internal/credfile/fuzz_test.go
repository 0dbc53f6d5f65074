// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package credfile

import (
	"strings"
	"testing"
)

// FuzzLocation looks for two spellings of one place, for places outside of their own prefix, and
// for passwords in errors. It is inside the package: a file with many entries would hide which one
// is at fault.
func FuzzLocation(f *testing.F) {
	for _, seed := range []string{
		"https://git.example.com/team", "https://git.example.com:443/team/", "ssh://git@host:22/a", "git@host:a/b.git", "git@host:/a",
		"https://user:secret@host/a", "https://host/a%2fb", "https://host/a/../b", "https://host/%2e%2e/b", "https://host//a", "http://[::1]:80/a",
		"https://host/a?b", "ssh://host", "host:a", "https:///a", "HTTPS://HOST/A",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parseLocation(text)
		if err != nil {
			if _, secret, ok := strings.Cut(text, ":"); ok && len(secret) > 12 && strings.Contains(err.Error(), secret) {
				t.Errorf("%q: the error repeats it: %v", text, err)
			}
			return
		}
		if !l.holds(l) || !l.equal(l) {
			t.Errorf("%q: %+v does not hold itself", text, l)
		}
		again, err := parseLocation(l.String())
		if err != nil || !again.equal(l) || again.String() != l.String() {
			t.Errorf("%q: got %+v (%v) from its one spelling %q, want %+v", text, again, err, l.String(), l)
		}
		below, err := parseLocation(l.example())
		if err != nil || !l.holds(below) {
			t.Errorf("%q: %q is not below it (%v)", text, l.example(), err)
		}
		if beside, err := parseLocation(strings.TrimSuffix(l.String(), "/") + "2"); err == nil && len(l.segments) > 0 && l.holds(beside) {
			t.Errorf("%q: holds %+v, whose name only begins like it", text, beside)
		}
	})
}
