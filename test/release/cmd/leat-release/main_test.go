// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"
)

// TestArguments requires that wrong arguments name what is missing, and that help is no failure.
func TestArguments(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no version":      {nil, "got 0 versions, want one: make release VERSION="},
		"an empty one":    {[]string{""}, `VERSION: got "", want a semantic version`},
		"two versions":    {[]string{"v1.2.3", "v1.2.4"}, "got 2 versions"},
		"half a version":  {[]string{"v1.2"}, `VERSION: got "v1.2"`},
		"another program": {[]string{"-programs", "hub", "v1.2.3"}, `program: got "hub", want one of agent, `},
		"half a platform": {[]string{"-platforms", "linux", "v1.2.3"}, `platform: got "linux/", want one of `},
		"an unknown flag": {[]string{"-x", "v1.2.3"}, "not defined: -x"},
	} {
		var out bytes.Buffer
		if err := run(t.Context(), &out, test.args); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
	var out bytes.Buffer
	err := run(t.Context(), &out, []string{"--help"})
	if !errors.Is(err, flag.ErrHelp) || !strings.Contains(out.String(), "docs/operations/releases.md") || !strings.Contains(out.String(), "-platforms") {
		t.Errorf("got %v and\n%s\nwant the flags, and the page", err, out.String())
	}
}
