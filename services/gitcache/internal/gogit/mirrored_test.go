// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit_test

import (
	"errors"
	"io"
	"log/slog"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/gogit"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// mirrored is the mirror of one repository, within limits.
type mirrored struct {
	*gogit.Git
	cfg  gogit.Config
	def  mirror.Definition
	have mirror.Content
}

func newMirrored(t *testing.T, url string, cfg gogit.Config) *mirrored {
	t.Helper()
	cfg.Dir, cfg.Logger = t.TempDir(), slog.New(slog.DiscardHandler)
	m := &mirrored{cfg: cfg, def: mirror.Definition{Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: url}}}
	m.reopen(t)
	return m
}

// reopen is a restart.
func (m *mirrored) reopen(t *testing.T) {
	t.Helper()
	var err error
	if m.Git, err = gogit.New(m.cfg); err != nil {
		t.Fatal(err)
	}
	if m.have, err = m.Load(t.Context(), m.def.UID); err != nil && !errors.Is(err, mirror.ErrNoMirror) {
		t.Fatal(err)
	}
}

func (m *mirrored) try(t *testing.T) error {
	t.Helper()
	c, err := m.Fetch(t.Context(), mirror.FetchParams{
		Definition: m.def, Have: m.have, Epoch: 1, Guard: func() error { return nil },
	})
	if err == nil {
		m.have = c
	}
	return err
}

func (m *mirrored) fetch(t *testing.T) {
	t.Helper()
	if err := m.try(t); err != nil {
		t.Fatal(err)
	}
}

// wantFull fails the test unless fetching fails for want of room, or another reason.
func (m *mirrored) wantFailure(t *testing.T, want reason.Reason) (message string) {
	t.Helper()
	err := m.try(t)
	upstream, ok := errors.AsType[*mirror.UpstreamError](err)
	if !ok || upstream.Reason != want {
		t.Fatalf("got %v, want reason %s", err, want)
	}
	return upstream.Message
}

// files reads a whole commit.
func (m *mirrored) files(t *testing.T, commit string) map[string]string {
	t.Helper()
	r, err := m.Open(t.Context(), m.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	tree, err := r.Tree(t.Context(), commit, "")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	m.walk(t, r, tree, "", files)
	return files
}

func (m *mirrored) walk(t *testing.T, r content.Reader, tree, prefix string, files map[string]string) {
	t.Helper()
	entries, err := r.List(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Kind == content.KindFolder {
			m.walk(t, r, e.ID, prefix+e.Name+"/", files)
			continue
		}
		body, err := r.Blob(t.Context(), e.ID)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(body)
		if err = errors.Join(err, body.Close()); err != nil {
			t.Fatal(err)
		}
		files[prefix+e.Name] = string(data)
	}
}

func (m *mirrored) glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(m.cfg.Dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (m *mirrored) packs(t *testing.T) []string {
	t.Helper()
	return m.glob(t, "uid-1/gen-*/objects/pack/*.pack")
}

// leftovers are the files that failed fetches, clones and compactions left on disk.
func (m *mirrored) leftovers(t *testing.T) []string {
	t.Helper()
	return append(m.glob(t, "*/tmp-*"), m.glob(t, "*/gen-*/objects/pack/tmp_*")...)
}

// fsck lets git itself judge the mirror.
func (m *mirrored) fsck(t *testing.T) {
	t.Helper()
	dirs := m.glob(t, "uid-1/gen-*")
	if len(dirs) != 1 {
		t.Fatalf("got generations %v, want one", dirs)
	}
	if out, err := exec.CommandContext(t.Context(), "git", "--git-dir="+dirs[0], "fsck", "--full").CombinedOutput(); err != nil {
		t.Errorf("git fsck: %v\n%s", err, out)
	}
}
