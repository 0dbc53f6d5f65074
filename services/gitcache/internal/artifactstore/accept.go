// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package artifactstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Accept implements [artifact.Mirrors].
func (s *Store) Accept(
	ctx context.Context, p mirror.FetchParams, c mirror.Content, memo func(io.Writer) error,
) (mirror.Content, error) {
	h, _ := s.get(p.Definition.UID)
	if !p.Have.Exists() {
		h = s.doubt(ctx, p.Definition.UID, h)
	}
	if err := p.Guard(); err != nil {
		return mirror.Content{}, err
	}
	now := time.Now()
	c.FreshAt, c.ChangedAt, c.Epoch, c.FilledAt = now, now, p.Epoch, p.Have.FilledAt
	if p.Have.Exists() && len(p.Have.Refs.Changed(c.Refs)) == 0 { // only the upstream's text is another one
		c.ChangedAt = p.Have.ChangedAt
	}
	return s.save(p, h, c, memo)
}

// Amend implements [artifact.Mirrors].
func (s *Store) Amend(p mirror.FetchParams, c mirror.Content, memo func(io.Writer) error) (mirror.Content, error) {
	h, ok := s.get(p.Definition.UID)
	if !ok {
		return mirror.Content{}, mirror.ErrNoMirror
	}
	if err := p.Guard(); err != nil {
		return mirror.Content{}, err
	}
	before := h.state.Content
	c.FreshAt, c.ChangedAt, c.Epoch = before.FreshAt, before.ChangedAt, before.Epoch
	if c.FilledAt = time.Now(); !c.FilledAt.After(before.FilledAt) { // the clock was set back
		c.FilledAt = before.FilledAt.Add(time.Nanosecond)
	}
	return s.save(p, h, c, memo)
}

// save makes content, kept artifacts and memo count. The memo's predecessor goes.
func (s *Store) save(p mirror.FetchParams, h held, c mirror.Content, memo func(io.Writer) error) (mirror.Content, error) {
	uid := p.Definition.UID
	home, err := s.makeHome(uid)
	if err != nil {
		return mirror.Content{}, err
	}
	next := h.state.with(h.kept)
	c.Partial = true
	next.Content = c
	if memo != nil {
		f, err := s.write(home, "", len(h.state.Files) == 0, memo)
		if err != nil {
			return mirror.Content{}, err
		}
		if next.Memo != f.Name {
			delete(next.Files, next.Memo)
		}
		next.Files[f.Name], next.Memo = f, f.Name
	}
	if err := writeJSON(filepath.Join(home, stateFile), next); err != nil {
		return mirror.Content{}, err
	}
	s.set(uid, held{state: next})
	if before := h.state.Memo; before != "" && before != next.Memo {
		_ = os.Remove(filepath.Join(home, before)) // what stays is swept when the mirror is loaded next
	}
	return next.content(), nil
}

// doubt returns a mirror without the files whose bytes are not as they were written, and removes
// those.
func (s *Store) doubt(ctx context.Context, uid string, h held) held {
	home, err := mirror.Folder(s.params.Dir, uid)
	if err != nil {
		return h
	}
	all, bad := h.state.with(h.kept).Files, map[string]bool{}
	for name, f := range all {
		if err := verifyFile(filepath.Join(home, name), f); err != nil {
			s.params.Logger.WarnContext(ctx, "damaged artifact dropped",
				slog.String("leat.repository.uid", uid), slog.String("file", name), slog.Any("error", err))
			bad[name] = true
			s.listings.Remove(filepath.Join(home, name))
			_ = os.Remove(filepath.Join(home, name))
		}
	}
	return held{state: h.state.with(h.kept).without(func(name string) bool { return bad[name] })}
}

// verifyFile returns an error unless a file has the size and the digest that it was written with.
func verifyFile(path string, want mirror.File) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	hash := digest.NewHasher()
	n, err := io.Copy(hash, f)
	if got := hash.Digest().String(); err == nil && (n != want.Size || got != want.Digest) {
		err = fmt.Errorf("got %d bytes with %s, want %d with %s: %w", n, got, want.Size, want.Digest, digest.ErrMismatch)
	}
	return err
}

// Unchanged implements [artifact.Mirrors].
func (s *Store) Unchanged(p mirror.FetchParams) (mirror.Content, error) {
	if err := p.Guard(); err != nil {
		return mirror.Content{}, err
	}
	c := p.Have
	c.FreshAt, c.Epoch = time.Now(), p.Epoch
	return c, s.Confirm(context.Background(), p.Definition.UID, c)
}

// Confirm implements [mirror.Storage].
func (s *Store) Confirm(_ context.Context, uid string, c mirror.Content) error {
	home, err := mirror.Folder(s.params.Dir, uid)
	if err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(home, freshFile), freshness{FreshAt: c.FreshAt, Epoch: c.Epoch}); err != nil {
		return err
	}
	if h, ok := s.get(uid); ok {
		h.state.FreshAt, h.state.Epoch = c.FreshAt, c.Epoch
		s.set(uid, h)
	}
	return nil
}

// SaveDelivery implements [mirror.Storage].
func (s *Store) SaveDelivery(_ context.Context, uid string, c mirror.Content) error {
	home, err := mirror.Folder(s.params.Dir, uid)
	if err != nil {
		return err
	}
	h, ok := s.get(uid)
	if !ok {
		return mirror.ErrNoMirror
	}
	h.state.Refs, h.state.Policy = c.Refs, c.Policy
	if err := writeJSON(filepath.Join(home, stateFile), h.state); err != nil {
		return err
	}
	s.set(uid, h)
	return nil
}

// Memo implements [artifact.Mirrors].
func (s *Store) Memo(uid string) (io.ReadCloser, error) {
	h, ok := s.get(uid)
	if !ok || h.state.Memo == "" {
		return nil, artifact.ErrNoMemo
	}
	f, err := os.Open(filepath.Join(s.params.Dir, uid, h.state.Memo))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, artifact.ErrNoMemo
	}
	if err != nil {
		return nil, fmt.Errorf("open memo: %w", err)
	}
	return f, nil
}
