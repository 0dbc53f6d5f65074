// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package lfs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/kit/durable"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const temporaryPattern = "tmp-"

// Store keeps objects on disk, <dir>/<uid>/<oid>, apart for each repository: who may read one
// repository may not have what another one's server gave. It holds nothing but whole and verified
// objects. It may be used concurrently.
type Store struct{ dir string }

// OpenStore makes the folder if it does not exist, and removes what a crash left unfinished.
func OpenStore(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make lfs folder: %w", err)
	}
	leftovers, err := filepath.Glob(filepath.Join(dir, "*", temporaryPattern+"*"))
	for _, path := range leftovers {
		err = errors.Join(err, os.Remove(path))
	}
	if err != nil {
		return nil, fmt.Errorf("sweep lfs folder: %w", err)
	}
	return &Store{dir: dir}, nil
}

func (s *Store) path(uid string, p Pointer) (string, error) {
	home, err := mirror.Folder(s.dir, uid)
	if err == nil && !p.Valid() {
		err = fmt.Errorf("%q names no lfs object", p.OID)
	}
	return filepath.Join(home, p.OID), err
}

// nothing is the empty object, which everybody holds.
var nothing = Pointer{OID: hex.EncodeToString(sha256.New().Sum(nil))}

// Has reports whether the object is held.
func (s *Store) Has(uid string, p Pointer) bool {
	if p == nothing {
		return true
	}
	path, err := s.path(uid, p)
	if err != nil {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Size() == p.Size
}

// Open opens an object. ErrAbsent: it is not held. The bytes are compared with the object's name;
// where the disk has changed it the last read fails with digest.ErrMismatch, and the object is held
// no longer. The caller closes the reader.
func (s *Store) Open(uid string, p Pointer) (io.ReadCloser, error) {
	if p == nothing {
		return io.NopCloser(strings.NewReader("")), nil
	}
	path, err := s.path(uid, p)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrAbsent, p.OID)
	}
	if err != nil {
		return nil, fmt.Errorf("open lfs object: %w", err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != p.Size {
		return nil, errors.Join(fmt.Errorf("%w: %s", ErrAbsent, p.OID), err, f.Close())
	}
	return &verified{File: f, hash: sha256.New(), want: p}, nil
}

// verified compares the bytes with their name.
type verified struct {
	*os.File
	hash hash.Hash
	want Pointer
	read int64
}

// Read implements io.Reader.
func (v *verified) Read(p []byte) (int, error) {
	n, err := v.File.Read(p)
	v.hash.Write(p[:n])
	v.read += int64(n)
	if n > 0 && v.read == v.want.Size && hex.EncodeToString(v.hash.Sum(nil)) != v.want.OID {
		return 0, errors.Join(fmt.Errorf("lfs object %s: %w", v.want.OID, digest.ErrMismatch), os.Remove(v.Name()))
	}
	return n, err
}

// WriteTo hides the file's own, which would go round Read.
func (v *verified) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{v})
}

// Put stores an object once body has proved to be it: durably, and under its name only when it is
// whole. An error that matches digest.ErrMismatch means that body is another content, or longer or
// shorter.
func (s *Store) Put(uid string, p Pointer, body io.Reader) error {
	path, err := s.path(uid, p)
	if err != nil {
		return err
	}
	home := filepath.Dir(path)
	if _, err := os.Stat(home); err != nil {
		if err := errors.Join(os.MkdirAll(home, 0o700), durable.SyncDir(s.dir)); err != nil {
			return fmt.Errorf("store lfs object: %w", err)
		}
	}
	err = durable.Write(path, temporaryPattern, func(w io.Writer) error {
		sum := sha256.New()
		size, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(body, p.Size+1))
		if got := hex.EncodeToString(sum.Sum(nil)); err == nil && (size != p.Size || got != p.OID) {
			err = fmt.Errorf("got %d bytes with %s, want %d: %w", size, got, p.Size, digest.ErrMismatch)
		}
		return err
	})
	if err == nil {
		err = durable.SyncDir(home)
	}
	if err != nil {
		return fmt.Errorf("store lfs object %s: %w", p.OID, err)
	}
	return nil
}

// List returns the held objects of a repository, by OID.
func (s *Store) List(uid string) ([]Pointer, error) {
	home, err := mirror.Folder(s.dir, uid)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(home)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list lfs objects: %w", err)
	}
	var held []Pointer
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !oidForm.MatchString(e.Name()) { // gone meanwhile, or being written
			continue
		}
		held = append(held, Pointer{OID: e.Name(), Size: info.Size()})
	}
	return held, nil
}

// Remove deletes all objects of a repository. Removing none is no error.
func (s *Store) Remove(uid string) error {
	home, err := mirror.Folder(s.dir, uid)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(home); err != nil {
		return fmt.Errorf("remove lfs objects: %w", err)
	}
	return nil
}

// Fingerprint names a set of objects: equal for equal ones on every replica, and empty where there
// are none.
func Fingerprint(held []Pointer) string {
	if len(held) == 0 {
		return ""
	}
	held = slices.SortedFunc(slices.Values(held), func(a, b Pointer) int { return strings.Compare(a.OID, b.OID) })
	sum := sha256.New()
	for _, p := range held {
		fmt.Fprintf(sum, "%s %d\n", p.OID, p.Size)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
