// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/store"
)

// walker is a back end that tells from where it was to walk.
type walker struct {
	objects
	from *[]string
}

func (w walker) Reachable(_ context.Context, _ string, tips []string, _ func(string)) error {
	*w.from = append(*w.from, tips...)
	return nil
}

// TestWhatIsDeliveredIsReached has a policy hold a branch back: the commit that is delivered instead must not be dropped.
func TestWhatIsDeliveredIsReached(t *testing.T) {
	t.Parallel()
	dir, from := t.TempDir(), []string{}
	s, err := store.New(store.Params{
		Dir: dir, Readers: 1, Objects: walker{from: &from}, Limits: store.Limits{}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	held, good, before := strings.Repeat("1", 40), strings.Repeat("2", 40), strings.Repeat("3", 40)
	c := pointing(held)
	c.Refs = mirror.NewRefs([]mirror.Ref{{
		Name: "refs/heads/main", Object: held, Commit: held, Held: "is not signed", GoodObject: good, GoodCommit: good,
	}})
	accept(t, s, c, true)
	examined := filepath.Join(dir, "uid", "examined.json")
	if err := os.WriteFile(examined, []byte(`{"at":"2001-01-01T00:00:00Z","tips":["`+before+`"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Compact(t.Context(), "uid", func(context.Context) (func(), error) { return func() {}, nil }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{held, good, before}, from); diff != "" {
		t.Errorf("walked from (-want +got):\n%s", diff)
	}
}
