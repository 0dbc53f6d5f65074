// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package artifactstore

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/kit/durable"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Has implements [artifact.Mirrors].
func (s *Store) Has(uid string, id artifact.ID) bool {
	h, _ := s.get(uid)
	return h.has(nameOf(id))
}

func (h held) has(name string) bool {
	_, isKept := h.kept[name]
	_, counts := h.state.Files[name]
	return isKept || counts
}

// Stage implements [artifact.Mirrors].
func (s *Store) Stage(ctx context.Context, uid string, id artifact.ID, fill func(artifact.Sink) error) (artifact.Staged, error) {
	if err := s.unpacking.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	staged := &staged{store: s, uid: uid, id: id}
	if err := staged.fill(fill); err != nil {
		staged.Discard()
		return nil, err
	}
	return staged, nil
}

// staged is an artifact in a temporary file. It stays readable if the file is swept meanwhile.
type staged struct {
	store   *Store
	uid     string
	id      artifact.ID
	spool   *spool // nil: there is none
	listing *artifact.Listing
}

func (a *staged) fill(fill func(artifact.Sink) error) error {
	home, err := a.store.makeHome(a.uid)
	if err != nil {
		return err
	}
	if a.spool, err = newSpool(home, a.store.params.Limits); err != nil {
		return fmt.Errorf("unpack artifact: %w", err)
	}
	if err := fill(a.spool); err != nil {
		return err
	}
	a.listing, err = a.spool.finish()
	return err
}

// Keep implements [artifact.Staged].
func (a *staged) Keep() error {
	s := a.store
	home, err := s.makeHome(a.uid)
	if err != nil {
		return err
	}
	h, isKnown := s.get(a.uid)
	f, err := s.write(home, nameOf(a.id), !isKnown, func(w io.Writer) error { return writeArtifact(w, a.listing, a.spool.open) })
	if err != nil {
		return err
	}
	h.kept = maps.Clone(h.kept)
	if h.kept == nil {
		h.kept = map[string]mirror.File{}
	}
	h.kept[f.Name] = f
	s.set(a.uid, h)
	return nil
}

// Discard implements [artifact.Staged].
func (a *staged) Discard() {
	if a.spool != nil {
		a.spool.close()
	}
	a.store.unpacking.Release(1)
}

// makeHome makes the folder of a mirror.
func (s *Store) makeHome(uid string) (string, error) {
	home, err := mirror.Folder(s.params.Dir, uid)
	if err == nil {
		err = os.MkdirAll(home, 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("make folder of artifacts: %w", err)
	}
	return home, nil
}

// write durably writes a file within the room that there is, and describes it. An empty name means
// a memo's name.
func (s *Store) write(home, name string, isNew bool, write func(io.Writer) error) (mirror.File, error) {
	temporary := filepath.Join(home, temporaryPrefix+"write")
	room := &roomWriter{store: s, isNew: isNew, hash: digest.NewHasher()}
	defer func() { s.release(room.bytes) }()
	err := durable.Write(temporary, temporaryPrefix, func(w io.Writer) error {
		room.below = bufio.NewWriterSize(w, 64<<10)
		return errors.Join(write(room), room.below.Flush())
	})
	if err != nil {
		_ = os.Remove(temporary)
		return mirror.File{}, err
	}
	d := room.hash.Digest()
	if name == "" {
		name = memoPrefix + d.Hex()
	}
	if err := os.Rename(temporary, filepath.Join(home, name)); err != nil {
		return mirror.File{}, fmt.Errorf("keep artifact: %w", err)
	}
	return mirror.File{Name: name, Size: room.bytes, Digest: d.String()}, durable.SyncDir(home)
}

// roomWriter reserves room for what it writes, and hashes it.
type roomWriter struct {
	store *Store
	isNew bool
	below *bufio.Writer
	hash  *digest.Hasher
	bytes int64
}

// Write implements io.Writer.
func (w *roomWriter) Write(p []byte) (int, error) {
	if err := w.store.reserve(int64(len(p)), w.isNew); err != nil {
		return 0, err
	}
	w.bytes += int64(len(p))
	_, _ = w.hash.Write(p) // a hash takes everything
	return w.below.Write(p)
}

// spool takes the files of an artifact in any order, into one temporary file.
type spool struct {
	file    *os.File
	buffer  *bufio.Writer
	limits  bundle.Limits
	files   []artifact.File
	offsets map[string]int64 // by name
	bytes   int64
}

func newSpool(home string, limits bundle.Limits) (*spool, error) {
	f, err := os.CreateTemp(home, temporaryPrefix)
	if err != nil {
		return nil, err
	}
	return &spool{file: f, buffer: bufio.NewWriterSize(f, 64<<10), limits: limits, offsets: map[string]int64{}}, nil
}

func (s *spool) close() {
	_ = s.file.Close()
	_ = os.Remove(s.file.Name()) // what stays is swept when the mirror is loaded next
}

// Add implements [artifact.Sink]. It holds names and sizes to the rules of bundles once more, because
// not everything that is added was unpacked.
func (s *spool) Add(e bundle.Entry, body io.Reader) error {
	f := artifact.File{Name: e.Name, Size: e.Size}
	if err := bundle.CheckName(e.Name); err != nil {
		return err
	}
	switch {
	case e.IsSymlink():
		if err := bundle.CheckTarget(e.Name, e.Target); err != nil {
			return err
		}
		f.Kind, f.Size, body = content.KindSymlink, int64(len(e.Target)), strings.NewReader(e.Target)
	case e.Executable:
		f.Kind = content.KindExecutable
	}
	switch {
	case f.Size < 0 || f.Size > s.limits.FileBytes:
		return &bundle.LimitError{Limit: bundle.LimitFileBytes, Max: s.limits.FileBytes, Name: e.Name}
	case s.bytes+f.Size > s.limits.Bytes:
		return &bundle.LimitError{Limit: bundle.LimitBytes, Max: s.limits.Bytes, Name: e.Name}
	case len(s.files) == s.limits.Files:
		return &bundle.LimitError{Limit: bundle.LimitFiles, Max: int64(s.limits.Files), Name: e.Name}
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(s.buffer, hash), io.LimitReader(body, f.Size))
	if err == nil && n != f.Size {
		err = fmt.Errorf("content of %q ends after %d of %d bytes: %w", e.Name, n, f.Size, io.ErrUnexpectedEOF)
	}
	if err != nil {
		return err
	}
	f.Sum = hex.EncodeToString(hash.Sum(nil))
	s.offsets[f.Name] = s.bytes
	s.bytes += f.Size
	s.files = append(s.files, f)
	return nil
}

func (s *spool) finish() (*artifact.Listing, error) {
	if err := s.buffer.Flush(); err != nil {
		return nil, fmt.Errorf("unpack artifact: %w", err)
	}
	return artifact.NewListing(s.files)
}

func (s *spool) open(f artifact.File) io.Reader {
	return io.NewSectionReader(s.file, s.offsets[f.Name], f.Size)
}
