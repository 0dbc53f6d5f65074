// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package recording_test

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/services/tunnel/internal/recording"
)

func stored(t *testing.T) (store *recording.Store, dir string, running *recording.Recording) {
	t.Helper()
	dir = t.TempDir()
	store, err := recording.NewStore(recording.Params{Dir: dir, MaxSize: 10_000, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range []recording.Info{
		{ID: "a1", Subject: "user:ada", Cluster: "demo", Namespace: "n", Pod: "p", Command: []string{"sh"}},
		{ID: "b2", Subject: "user:bob", Cluster: "demo"},
		{ID: "c3", Subject: "user:ada", Cluster: "other"},
	} {
		if running, err = store.Begin(t.Context(), info); err != nil {
			t.Fatal(err)
		}
		if info.ID != "c3" {
			running.End(audit.OutcomeCompleted)
		}
	}
	return store, dir, running
}

func TestListChooses(t *testing.T) {
	t.Parallel()
	store, dir, running := stored(t)
	defer running.End(audit.OutcomeCompleted)
	for name, content := range map[string]string{
		"notes.txt": "", "empty.cast": "", "other.cast": `{"version":2,"leat":{"id":"a1"}}` + "\n", "a.b.cast": "x", "broken.cast": "{\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "a1.cast"), filepath.Join(dir, "link.cast")); err != nil {
		t.Fatal(err)
	}
	future := time.Now().Add(time.Hour)
	for name, test := range map[string]struct {
		filter recording.Filter
		want   []string
	}{
		"all":         {recording.Filter{}, []string{"a1", "b2", "c3"}},
		"a cluster":   {recording.Filter{Cluster: "demo"}, []string{"a1", "b2"}},
		"a person":    {recording.Filter{Subject: "user:ada"}, []string{"a1", "c3"}},
		"both":        {recording.Filter{Subject: "user:ada", Cluster: "demo"}, []string{"a1"}},
		"before":      {recording.Filter{Before: future}, []string{"a1", "b2", "c3"}},
		"long before": {recording.Filter{Before: future.Add(-24 * time.Hour)}, nil},
		"later":       {recording.Filter{From: future}, nil},
	} {
		entries, err := store.List(t.Context(), test.filter)
		var got []string
		for _, e := range entries {
			got = append(got, e.ID)
		}
		slices.Sort(got)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, test.want)
		}
	}
}

func TestIDsLeadNowhereElse(t *testing.T) {
	t.Parallel()
	store, dir, running := stored(t)
	defer running.End(audit.OutcomeCompleted)
	outside := filepath.Join(t.TempDir(), "secret.cast")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link.cast")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", "..", "../secret", "/etc/passwd", "a1.cast", "a1\x00", `..\a1`, "link", strings.Repeat("a", 65), "none"} {
		if file, err := store.Open(id); err == nil {
			_ = file.Close()
			t.Errorf("%q: got a file, want none", id)
		} else if id != "link" && !errors.Is(err, recording.ErrNotFound) {
			t.Errorf("%q: got %v, want ErrNotFound", id, err)
		}
	}
	file, err := store.Open("a1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if got, err := io.ReadAll(file); err != nil || !strings.HasPrefix(string(got), `{"version":2,`) {
		t.Errorf("got %q, %v, want the recording", got, err)
	}
}

func TestSweepSparesSessionsThatGoOn(t *testing.T) {
	t.Parallel()
	store, dir, running := stored(t)
	old, long := time.Now().Add(-time.Hour), time.Now().Add(-48*time.Hour)
	for _, name := range []string{"a1.cast", "c3.cast"} {
		if err := os.Chtimes(filepath.Join(dir, name), long, long); err != nil {
			t.Fatal(err)
		}
	}
	left := func() []string {
		entries, err := store.List(t.Context(), recording.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, e := range entries {
			ids = append(ids, e.ID)
		}
		slices.Sort(ids)
		return ids
	}
	if n, err := store.Sweep(old); n != 1 || err != nil || !slices.Equal(left(), []string{"b2", "c3"}) {
		t.Errorf("got %d, %v and %v left, want the one that ended long ago deleted", n, err, left())
	}
	running.End(audit.OutcomeCompleted)
	if err := os.Chtimes(filepath.Join(dir, "c3.cast"), long, long); err != nil {
		t.Fatal(err)
	}
	if n, err := store.Sweep(old); n != 1 || err != nil || !slices.Equal(left(), []string{"b2"}) {
		t.Errorf("got %d, %v and %v left, want what has ended since deleted", n, err, left())
	}
}
