// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/vaulttest"
	"github.com/leatdev/leat/services/distributor"
)

// said collects what a hub logs.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), text)
}

// TestSlowHubWithVault seals by a key of a real Vault. While Vault is away the hub continues, with
// everything except a rotation; a hub that starts then waits for Vault, and reports it.
func TestSlowHubWithVault(t *testing.T) {
	t.Parallel()
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: a real Vault is left to `make test-all`")
	}
	vault := vaulttest.Start(t)
	vault.Call(t, http.MethodPost, "sys/mounts/transit", map[string]any{"type": "transit"}, nil)
	vault.Call(t, http.MethodPost, "transit/keys/leat", map[string]any{}, nil)
	vault.Call(t, http.MethodPut, "sys/policies/acl/leat", map[string]any{"policy": `path "transit/encrypt/leat" { capabilities = ["update"] }
path "transit/decrypt/leat" { capabilities = ["update"] }`}, nil)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(vault.Token(t, "leat", time.Hour)), 0o600); err != nil {
		t.Fatal(err)
	}
	logged := &said{}
	h := startHub(t, func(c *distributor.Config) {
		c.Keys.Vault = distributor.VaultConfig{URL: vault.URL + "/v1/transit/keys/leat", TokenFile: token}
		c.Telemetry.LogOutput = logged
	})
	secretly := func(name string) error {
		document := repositoryDocument(name)
		document.GetRepository().Spec.WebhookSecret = proto.String("hunter2 and his webhooks")
		_, err := h.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}})
		return err
	}
	rotate := func() error {
		_, err := h.keyService(t).RotateSealingKey(t.Context(), &fleetv1.RotateSealingKeyRequest{})
		return err
	}
	root := func() string {
		keys, err := h.keyService(t).GetKeys(t.Context(), &fleetv1.GetKeysRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return keys.GetSealingKeys()[0].GetRoot()
	}
	if err := secretly("one"); err != nil {
		t.Fatal(err)
	}
	if got := root(); got != "vault/transit/leat" {
		t.Errorf("got root %q, want Vault", got)
	}

	vault.Stop()
	if err := secretly("two"); err != nil {
		t.Errorf("while Vault is away: %v", err)
	}
	if err := rotate(); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("rotate while Vault is away: got %v, want unavailable", err)
	}
	h.stop(t)
	h.start(t)
	await.True(t, "the hub to say that it waits for Vault", func() bool { return logged.has("root of the sealing keys does not answer") })
	vault.Restart(t)
	await.True(t, "the hub to start", func() bool {
		_, err := fleetcalls.Get[*fleetv1.Repository](t.Context(), h.fleet(t, adminToken), "two")
		return err == nil
	})
	if err := rotate(); err != nil {
		t.Errorf("rotate: %v", err)
	}

	vault.Seal(t)
	if err := secretly("three"); err != nil {
		t.Errorf("while Vault is sealed: %v", err)
	}
	vault.Unseal(t)
}
