// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"strings"
	"testing"

	"github.com/leatdev/leat/cli/internal/command/access"
)

// TestSecPagesOfTheHub has a hub name pages that are not web pages: openers of addresses start programs,
// open files, and take arguments.
func TestSecPagesOfTheHub(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"https://leat.example/login": true, "https://leat.example:8443/login?x=y": true, "http://127.0.0.1:1234/login": true,
		"http://[::1]:1234/login": true, "http://localhost/login": true,
		"": false, "-": false, "--renderer-cmd-prefix=/bin/sh -c id #": false, "file:///etc/passwd": false, "smb://evil/share/x.hta": false,
		"javascript:alert(1)": false, "http://leat.example/login": false, "https:///login": false, "https:leat.example": false,
		"https://127.0.0.1@evil.example/login": false, " https://leat.example": false, "https://leat.example\n--x": false, "//leat.example/": false,
		"C:\\Windows\\System32\\calc.exe": false, "http://127.0.0.1.evil.example/": false, "https://le\x1bat.example/": false,
	} {
		page, err := access.ParsePage(address)
		if (err == nil) != ok {
			t.Errorf("%q: got %v, %v, want a page: %t", address, page, err, ok)
		}
		if err == nil && (!strings.HasPrefix(page.String(), "http") || strings.ContainsAny(page.String(), " \n\x1b")) {
			t.Errorf("%q: got %s", address, page)
		}
	}
}
