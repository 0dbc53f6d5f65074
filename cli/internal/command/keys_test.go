// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"os"
	"strings"
	"testing"

	"github.com/leatdev/leat/cli/internal/command"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/fleettest"
	"github.com/leatdev/leat/internal/runtime/identity"
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

// TestKeysKeepAKeyInPEM gives leat keys a secret of several lines, in the form in which shells read
// what it prints.
func TestKeysKeepAKeyInPEM(t *testing.T) {
	t.Parallel()
	der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	secret := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	key, err := identity.NewServiceKey([]byte(secret), identity.ServiceTunnel)
	if err != nil {
		t.Fatal(err)
	}
	var out, failed bytes.Buffer
	run := func(secret string) int {
		return command.Run(t.Context(), command.Params{
			Args: []string{"keys"}, In: strings.NewReader(""), Out: &out, Err: &failed,
			LookupEnv: func(name string) (string, bool) {
				if name != "LEAT_TUNNEL_SECRET" {
					return "", false
				}
				return secret, true
			},
		})
	}
	if exit := run(secret); exit != failure.ExitOK || !strings.Contains(out.String(), `LEAT_TUNNEL_SECRET="`+secret+`"`) || !strings.Contains(out.String(), key.Public()) {
		t.Errorf("got %d, %s, %s, want the key kept, in quotes", exit, out.String(), failed.String())
	}
	if exit := run(secret[:60]); exit == failure.ExitOK || !strings.Contains(failed.String(), "LEAT_TUNNEL_SECRET is not a key") {
		t.Errorf("cut off: got %d, %s, want it refused", exit, failed.String())
	}
}
