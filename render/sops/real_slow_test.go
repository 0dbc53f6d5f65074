// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sops_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/leatdev/leat/internal/testkit/program"
)

var update = flag.Bool("update", false, "replace the encrypted files of testdata")

// TestSlowSopsItself has the real sops encrypt each plain file of testdata again, and opens what it
// wrote.
func TestSlowSopsItself(t *testing.T) {
	t.Parallel()
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: the real sops is left to `make slow`")
	}
	sops := program.Build(t, "sops")
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			plain := filepath.Join("testdata", c.name+".plain."+c.ext())
			args := append([]string{"encrypt", "--age", recipient}, c.args...)
			if c.config {
				args = []string{"--config", filepath.Join("testdata", c.name+".config.yaml"), "encrypt"}
			}
			command := exec.CommandContext(t.Context(), sops, append(args, plain)...)
			command.Stderr = os.Stderr
			encrypted, err := command.Output()
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(c.encrypted(), encrypted, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c.check(t, encrypted)
		})
	}
}
