// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/leatdev/leat/cli/internal/command"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/fleettest"
)

// TestDocumentedKeyCommands runs the commands of leat that docs/operations/keys.md shows.
func TestDocumentedKeyCommands(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/operations/keys.md")
	if err != nil {
		t.Fatal(err)
	}
	hub := fleettest.Start(t)
	environment := map[string]string{
		"LEAT_SERVER": hub.URL, "LEAT_TOKEN": fleettest.Token, "LEAT_CONFIG": t.TempDir() + "/config.yaml",
		"LEAT_TUNNEL_SECRET": strings.Repeat("s", 32),
	}
	ran := 0
	inBlock := false
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			inBlock = !inBlock
		}
		words := strings.Fields(line)
		if !inBlock || len(words) < 2 || words[0] != "leat" {
			continue
		}
		var out, failed bytes.Buffer
		exit := command.Run(t.Context(), command.Params{
			Args: words[1:], In: strings.NewReader(""), Out: &out, Err: &failed,
			LookupEnv: func(name string) (string, bool) { value, ok := environment[name]; return value, ok },
		})
		if exit != failure.ExitOK || out.Len() == 0 {
			t.Errorf("%s: got exit code %d, %q, %q", line, exit, out.String(), failed.String())
		}
		ran++
	}
	if ran < 3 {
		t.Errorf("got %d commands on the page, want at least 3", ran)
	}
}
