// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/services/agent/internal/control"
)

// safe is a Keep in memory.
type safe struct {
	mu     sync.Mutex
	files  map[string][]byte
	err    error
	stored chan struct{}
}

func (s *safe) Load(context.Context) (map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.files), s.err
}

func (s *safe) Store(_ context.Context, files map[string][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.files = maps.Clone(files)
		s.stored <- struct{}{}
	}
	return s.err
}

// identityOf returns the files of an identity. A zero time stands for one of an earlier version.
func identityOf(key string, enrolled time.Time) map[string][]byte {
	state := `{"cluster":"mill"}`
	if !enrolled.IsZero() {
		state = fmt.Sprintf(`{"cluster":"mill","enrolled_at":%q}`, enrolled.Format(time.RFC3339))
	}
	return map[string][]byte{"agent.key": []byte(key), "identity.json": []byte(state)}
}

func TestRestoreIdentity(t *testing.T) {
	t.Parallel()
	early, late := time.Unix(1000, 0).UTC(), time.Unix(2000, 0).UTC()
	for name, test := range map[string]struct {
		own, kept map[string][]byte
		keepErr   error
		want      string // key
		wantErr   bool
	}{
		"nothing anywhere":           {want: ""},
		"folder lost":                {kept: identityOf("kept", early), want: "kept"},
		"nothing kept yet":           {own: identityOf("own", early), want: "own"},
		"kept is newer":              {own: identityOf("own", early), kept: identityOf("kept", late), want: "kept"},
		"own is newer":               {own: identityOf("own", late), kept: identityOf("kept", early), want: "own"},
		"same":                       {own: identityOf("own", late), kept: identityOf("own", late), want: "own"},
		"own of an earlier version":  {own: identityOf("own", time.Time{}), kept: identityOf("kept", early), want: "kept"},
		"both of an earlier version": {own: identityOf("own", time.Time{}), kept: identityOf("kept", time.Time{}), want: "own"},
		"kept without its key":       {kept: map[string][]byte{"identity.json": []byte(`{"cluster":"mill"}`)}, want: ""},
		"key that never enrolled":    {own: map[string][]byte{"agent.key": []byte("own")}, kept: identityOf("kept", early), want: "kept"},
		"keep unreadable":            {own: identityOf("own", early), keepErr: errors.New("no"), want: "own"},
		"keep unreadable, no folder": {keepErr: errors.New("no"), wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, content := range test.own {
				if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := control.RestoreIdentity(t.Context(), dir, &safe{files: test.kept, err: test.keepErr}, slog.New(slog.DiscardHandler))
			if (err != nil) != test.wantErr {
				t.Fatalf("got %v, want an error: %v", err, test.wantErr)
			}
			got, _ := os.ReadFile(filepath.Join(dir, "agent.key"))
			if string(got) != test.want {
				t.Errorf("got key %q, want %q", got, test.want)
			}
		})
	}
}
