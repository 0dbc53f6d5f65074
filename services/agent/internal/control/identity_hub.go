// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"slices"
)

// Key returns the agent's key.
func (i *Identity) Key() ed25519.PrivateKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.key
}

// HubKeys returns the keys with which the hub signs: the keys of its latest answer, unless the
// configuration has changed since.
func (i *Identity) HubKeys() []ed25519.PublicKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.state.HubKeys) > 0 && sameKeys(i.state.HubKeysGiven, i.params.HubKeys) {
		return i.state.HubKeys
	}
	return i.params.HubKeys
}

// learnHubKeys requests the hub's keys while the agent accepts the earlier ones. Without an answer
// those stay valid.
func (i *Identity) learnHubKeys(ctx context.Context, state *identityState) {
	if len(i.params.HubKeys) == 0 {
		return
	}
	keys, err := i.params.FetchHubKeys(ctx)
	if err != nil {
		i.params.Logger.WarnContext(ctx, "hub does not return its keys, continuing with the known ones", slog.Any("error", err))
		return
	}
	state.HubKeys, state.HubKeysGiven = keys, i.params.HubKeys
}

func sameKeys(a, b []ed25519.PublicKey) bool {
	return slices.EqualFunc(a, b, func(x, y ed25519.PublicKey) bool { return x.Equal(y) })
}
