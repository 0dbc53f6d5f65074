// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// opener opens a file of another replica's mirror.
type opener func(context.Context, mirror.File) (io.ReadCloser, error)

// Adopt implements [mirror.Storage]. Missing packs are added to the current generation. Where that
// has packs which the copy has not, it makes a new one, with links to what both have; the old one
// stays until the next, for readers that have it open.
func (s *Store) Adopt(
	ctx context.Context, uid string, c mirror.Copy, open func(context.Context, mirror.File) (io.ReadCloser, error),
) (mirror.Content, error) {
	content, err := s.adopt(ctx, uid, c, open)
	if err != nil {
		return mirror.Content{}, fmt.Errorf("adopt mirror: %w", err)
	}
	return content, nil
}

func (s *Store) adopt(ctx context.Context, uid string, c mirror.Copy, open opener) (mirror.Content, error) {
	for _, f := range c.Files {
		if !packForm.MatchString(f.Name) { // no name leads elsewhere
			return mirror.Content{}, fmt.Errorf("%q names no pack", f.Name)
		}
	}
	if c.Content.Partial && !s.partial {
		return mirror.Content{}, fmt.Errorf("it is partial: %w", ErrForeign)
	}
	surplus, err := s.surplus(uid, c.Files)
	if err != nil {
		return mirror.Content{}, err
	}
	d, err := s.Draft(uid, c.Content, surplus || c.Doubted)
	if err != nil {
		return mirror.Content{}, err
	}
	defer d.Close()
	d.doubted = c.Doubted
	if err := d.takeAll(ctx, c.Files, open); err != nil {
		return mirror.Content{}, err
	}
	content, err := d.commit(c.Content, func(st state) error { return s.verify(ctx, d.dir, st) })
	if err != nil {
		return mirror.Content{}, err
	}
	s.retire(ctx, d.home, d.dir, d.previous)
	return content, nil
}

// surplus reports whether the current generation has packs that are not among the files.
func (s *Store) surplus(uid string, files []mirror.File) (bool, error) {
	dir, ok := s.generation(uid)
	if !ok {
		return false, nil
	}
	have, err := wholePacks(dir)
	if err != nil {
		return false, err
	}
	for _, name := range have {
		if !slices.ContainsFunc(files, func(f mirror.File) bool { return f.Name == name }) {
			return true, nil
		}
	}
	return false, nil
}

func (d *Draft) takeAll(ctx context.Context, files []mirror.File, open opener) error {
	// Packs come last: listing them finds the files that belong to each.
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(x, y mirror.File) int { return order(x) - order(y) })
	for _, f := range files {
		if err := d.take(ctx, f, open); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

func order(f mirror.File) int {
	if strings.HasSuffix(f.Name, ".pack") {
		return 1
	}
	return 0
}

// take makes one file be there: it is already, or is linked, or is copied.
func (d *Draft) take(ctx context.Context, f mirror.File, open opener) error {
	to := filepath.Join(packFolder(d.dir), f.Name)
	if info, err := os.Stat(to); err == nil && info.Size() == f.Size {
		return nil
	}
	if d.fresh && d.previous != "" {
		from := filepath.Join(packFolder(d.previous), f.Name)
		if d.usable(from, f) && os.Link(from, to) == nil {
			return nil
		}
	}
	body, err := open(ctx, f)
	if err != nil {
		return err
	}
	return errors.Join(receive(d.Limit(contextReader{ctx, body}), f, to), body.Close())
}

// usable reports whether a file of the previous generation is what another replica has.
func (d *Draft) usable(path string, f mirror.File) bool {
	info, err := os.Stat(path)
	if err != nil || info.Size() != f.Size {
		return false
	}
	if !d.doubted {
		return true
	}
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	hash := digest.NewHasher()
	_, err = io.Copy(hash, file)
	return errors.Join(err, file.Close()) == nil && hash.Digest().String() == f.Digest
}

// receive writes a file under its name once it is whole, what it says it is, and durable.
func receive(body io.Reader, f mirror.File, to string) error {
	temporary, err := os.CreateTemp(filepath.Dir(to), temporaryPack)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // gone already where the rename succeeded
	hash := digest.NewHasher()
	size, err := io.Copy(io.MultiWriter(temporary, hash), io.LimitReader(body, f.Size+1))
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	if got := hash.Digest().String(); size != f.Size || got != f.Digest {
		return fmt.Errorf("got %d bytes with %s, want %d with %s: %w", size, got, f.Size, f.Digest, digest.ErrMismatch)
	}
	return os.Rename(temporary.Name(), to)
}

// contextReader ends reading when the context does.
type contextReader struct {
	ctx context.Context //nolint:containedctx // lives as long as one call
	io.Reader
}

// Read implements io.Reader.
func (r contextReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(p)
}
