// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"testing"

	"github.com/leatdev/leat/services/agent/internal/control"
)

// TestHubKeys expects the configured keys, then those in the hub's answer, also after a restart,
// unless other keys are configured.
func TestHubKeys(t *testing.T) {
	t.Parallel()
	dir, h := t.TempDir(), &tokenHub{give: func(int) error { return nil }}
	var told []ed25519.PublicKey
	open := func(given byte) *control.Identity {
		t.Helper()
		identity, err := control.OpenIdentity(control.IdentityParams{
			Dir: dir, JoinToken: "leatjoin_x", Hub: h, Logger: slog.New(slog.DiscardHandler), HubKeys: hubKeys(given),
			FetchHubKeys: func(context.Context) ([]ed25519.PublicKey, error) {
				if told == nil {
					return nil, errors.New("hub is away")
				}
				return told, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return identity
	}
	wants := func(identity *control.Identity, want byte, when string) {
		t.Helper()
		if got := identity.HubKeys(); len(got) != 1 || !got[0].Equal(hubKeys(want)[0]) {
			t.Errorf("%s: got %x, want key %d", when, got, want)
		}
	}
	i := open(1)
	wants(i, 1, "before enrolment")
	renew := func() {
		t.Helper()
		i.Invalidate()
		if _, err := i.Token(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	renew()
	wants(i, 1, "while the hub does not tell")
	told = hubKeys(2)
	renew()
	wants(i, 2, "when it has told")
	i = open(1)
	wants(i, 2, "after a restart")
	i = open(3)
	wants(i, 3, "when others are given")
	told = hubKeys(4)
	renew()
	wants(i, 4, "when it has told again")
}

func hubKeys(n byte) []ed25519.PublicKey {
	key := make(ed25519.PublicKey, ed25519.PublicKeySize)
	key[0] = n
	return []ed25519.PublicKey{key}
}
