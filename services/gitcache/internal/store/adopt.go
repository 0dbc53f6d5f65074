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

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/kit/durable"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// opener opens a file of another replica's mirror.
type opener = func(context.Context, mirror.File) (io.ReadCloser, error)

// Adopt implements [mirror.Storage]. It adds missing packs to the current generation. Where that
// one has packs which the copy does not have, Adopt makes a new one, with links to what both have;
// the old one stays until the next commit, for replicas that are copying it.
func (s *Store) Adopt(ctx context.Context, uid string, c mirror.Copy, open opener) (mirror.Content, error) {
	content, err := s.adopt(ctx, uid, c, open)
	if err != nil {
		return mirror.Content{}, fmt.Errorf("adopt mirror: %w", err)
	}
	return content, nil
}

func (s *Store) adopt(ctx context.Context, uid string, c mirror.Copy, open opener) (mirror.Content, error) {
	for _, f := range c.Files {
		if !packForm.MatchString(f.Name) {
			return mirror.Content{}, fmt.Errorf("%q names no pack", f.Name)
		}
	}
	if c.Content.Partial && !s.params.Partial {
		return mirror.Content{}, fmt.Errorf("it is partial: %w", ErrForeign)
	}
	hasSurplus, err := s.hasSurplus(uid, c.Files)
	if err != nil {
		return mirror.Content{}, err
	}
	d, err := s.Draft(uid, c.Content, hasSurplus || c.Doubted)
	if err != nil {
		return mirror.Content{}, err
	}
	defer d.Close()
	d.isDoubted = c.Doubted
	if err := d.obtainAll(ctx, c.Files, open); err != nil {
		return mirror.Content{}, err
	}
	st, err := d.commit(c.Content, func(st state) error { return s.verify(ctx, d.dir, st) })
	if err != nil {
		return mirror.Content{}, err
	}
	s.retire(ctx, d.home, d.dir, d.previous)
	return st.content(), nil
}

// hasSurplus reports whether the current generation has packs that are not among the files.
func (s *Store) hasSurplus(uid string, files []mirror.File) (bool, error) {
	dir := s.generations.get(uid)
	if dir == "" {
		return false, nil
	}
	have, err := wholePacks(dir)
	return slices.ContainsFunc(have, func(name string) bool {
		return !slices.ContainsFunc(files, func(f mirror.File) bool { return f.Name == name })
	}), err
}

// obtainAll obtains indexes first and packs last: a pack that is there counts as whole, and its
// index has to be there then.
func (d *Draft) obtainAll(ctx context.Context, files []mirror.File, open opener) error {
	for _, arePacks := range []bool{false, true} {
		for _, f := range files {
			if strings.HasSuffix(f.Name, ".pack") != arePacks {
				continue
			}
			if err := d.obtain(ctx, f, open); err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
		}
	}
	return nil
}

// obtain returns once the draft has a file: it has it already, or links the previous generation's,
// or copies the other replica's.
func (d *Draft) obtain(ctx context.Context, f mirror.File, open opener) error {
	path := filepath.Join(packFolder(d.dir), f.Name)
	if info, err := os.Stat(path); err == nil && info.Size() == f.Size {
		return nil
	}
	if d.Empty() && d.previous != "" {
		own := filepath.Join(packFolder(d.previous), f.Name)
		if d.isUsable(ctx, own, f) && os.Link(own, path) == nil {
			return nil
		}
	}
	body, err := open(ctx, f)
	if err != nil {
		return err
	}
	return errors.Join(receive(d.Limit(pack.ContextReader{Context: ctx, Reader: body}), f, path), body.Close())
}

// isUsable reports whether a file of the previous generation equals the other replica's. Names and
// sizes prove it, unless the generation is doubted: then only the digest does.
func (d *Draft) isUsable(ctx context.Context, path string, f mirror.File) bool {
	info, err := os.Stat(path)
	if err != nil || info.Size() != f.Size || !d.isDoubted {
		return err == nil && info.Size() == f.Size
	}
	own, err := describe(ctx, path)
	return err == nil && own == f
}

// receive writes a file under its name once it is whole, durable and as in f.
func receive(body io.Reader, f mirror.File, path string) error {
	return durable.Write(path, temporaryPack, func(w io.Writer) error {
		hash := digest.NewHasher()
		size, err := io.Copy(io.MultiWriter(w, hash), io.LimitReader(body, f.Size+1))
		if got := hash.Digest().String(); err == nil && (size != f.Size || got != f.Digest) {
			err = fmt.Errorf("got %d bytes with %s, want %d with %s: %w", size, got, f.Size, f.Digest, digest.ErrMismatch)
		}
		return err
	})
}
