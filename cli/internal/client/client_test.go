// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/fleettest"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
)

func newClient(t *testing.T, hub *fleettest.Hub, token string) *client.Client {
	t.Helper()
	c, err := client.New(client.Params{Server: hub.URL, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func service(name string) *fleetv1.Document {
	return fleetdoc.Of(&fleetv1.Service{Metadata: &typev1.Metadata{Name: name}, Status: fleettest.Healthy()})
}

// A watch survives the connection on which it began.
func TestWatchGoesOn(t *testing.T) {
	t.Parallel()
	hub := fleettest.Start(t)
	hub.Put(service("a"))
	c := newClient(t, hub, fleettest.Token)
	cut := false
	err := c.Follow(t.Context(), &fleetv1.WatchRequest{}, func(change *fleetv1.WatchResponse) error {
		switch name := change.GetDocument().GetService().GetMetadata().GetName(); {
		case name == "a" && !cut:
			cut = true
			hub.Disconnect()
			hub.Put(service("b"))
		case name == "b" && cut:
			return client.ErrStop
		}
		return nil
	})
	if err != nil || !cut {
		t.Errorf("Watch: got error %v, want none after a new connection", err)
	}
}

func TestWatchEnds(t *testing.T) {
	t.Parallel()
	hub := fleettest.Start(t)
	hub.Put(service("a"))
	broken := errors.New("broken")
	seen := newClient(t, hub, fleettest.Token)
	if err := seen.Follow(t.Context(), &fleetv1.WatchRequest{}, func(*fleetv1.WatchResponse) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("with a function that fails: got error %v, want %v", err, broken)
	}
	refused := newClient(t, hub, "wrong")
	err := refused.Follow(t.Context(), &fleetv1.WatchRequest{}, func(*fleetv1.WatchResponse) error { return nil })
	if connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("with a wrong token: got error %v, want %v at once", err, connect.CodeUnauthenticated)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = seen.Follow(ctx, &fleetv1.WatchRequest{}, func(*fleetv1.WatchResponse) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("when its context ends: got error %v, want %v", err, context.Canceled)
	}
}

func TestAccessTokenIsKept(t *testing.T) {
	t.Parallel()
	hub := fleettest.Start(t)
	c, dir := newClient(t, hub, fleettest.Token), filepath.Join(t.TempDir(), "tokens")
	for _, person := range []*client.Client{c, c, newClient(t, hub, fleettest.Token+"-of-somebody-else")} {
		if _, err := person.AccessToken(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := hub.AccessTokens(), 2; got != want {
		t.Errorf("tokens handed out: got %d, want %d: one for each person", got, want)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s: got mode %o, want 600", entry.Name(), got)
		}
		// An unreadable file is replaced.
		if err := os.WriteFile(filepath.Join(dir, entry.Name()), []byte("broken"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if token, err := c.AccessToken(t.Context(), dir); err != nil || token.Token != "jwt-3" {
		t.Errorf("with a broken cache: got %q, %v, want a new token", token.Token, err)
	}
}
