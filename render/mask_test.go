// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"testing"

	"github.com/leatdev/leat/render"
)

func TestMask(t *testing.T) {
	t.Parallel()
	s := render.NewSubstitution(render.Variables{
		Values: map[string]string{"HOST": "example.test"},
		Secrets: map[string]string{
			"PASSWORD": "hunter2", "LONGER": "hunter2hunter2", "EMPTY": "", "SHORT": "p", "PIN": "a-1", "KEY": "-----BEGIN KEY-----\nMIIBVgIBADANBgkq\n}\n",
		},
	})
	for text, want := range map[string]string{
		"password hunter2 at example.test": "password (masked) at example.test",
		"hunter2hunter2hunter2":            "(masked)(masked)",
		"MIIBVgIBADANBgkq\n}\nend":         "(masked)\n}\nend",
		"nothing":                          "nothing",
		"templates/p.yaml: port p of 8p":   "templates/(masked).yaml: port (masked) of 8p",
		"pin a-1, not ba-1 nor a-12":       "pin (masked), not ba-1 nor a-12",
	} {
		if got := s.Mask(text); got != want {
			t.Errorf("mask %q: got %q, want %q", text, got, want)
		}
	}
	if got := (*render.Substitution)(nil).Mask("as it is"); got != "as it is" {
		t.Errorf("without a configuration: got %q", got)
	}
}
