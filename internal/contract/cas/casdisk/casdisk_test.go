// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casdisk_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/cas/casdisk"
	"github.com/leatdev/leat/internal/contract/cas/castest"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/testkit/faults"
)

func open(t testing.TB, cfg casdisk.Config) *casdisk.Store {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	store, err := casdisk.Open(cfg)
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// reopen does what a new process does after the old one has died.
func reopen(t testing.TB, old *casdisk.Store, cfg casdisk.Config) *casdisk.Store {
	t.Helper()
	if err := old.Close(); err != nil {
		t.Fatalf("close store: %v", err)
	}
	return open(t, cfg)
}

// files lists the paths under a folder of the store.
func files(t testing.TB, dir string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, item fs.DirEntry, err error) error {
		if err == nil && !item.IsDir() {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func fileOf(t testing.TB, dir string, d digest.Digest) string {
	t.Helper()
	for _, path := range files(t, filepath.Join(dir, "blobs")) {
		if strings.Contains(path, d.Hex()) {
			return path
		}
	}
	t.Fatalf("no file of %s", d)
	return ""
}

func TestStore(t *testing.T) {
	t.Parallel()
	castest.Run(t, func(t testing.TB) cas.Store {
		return open(t, casdisk.Config{MaxContentBytes: castest.MaxContentBytes})
	})
}

func TestRestartKeepsBlobs(t *testing.T) {
	t.Parallel()
	cfg := casdisk.Config{Dir: t.TempDir()}
	store := open(t, cfg)
	for n := range 10 {
		castest.Put(t, store, fmt.Appendf(nil, "content %d", n))
	}
	before, _ := store.Usage(t.Context())
	store = reopen(t, store, cfg)
	if after, err := store.Usage(t.Context()); err != nil || after != before {
		t.Errorf("usage after a restart: got %+v, %v, want %+v", after, err, before)
	}
	var readers sync.WaitGroup
	for n := range 40 {
		readers.Go(func() { castest.Check(t, store, fmt.Appendf(nil, "content %d", n%10)) })
	}
	readers.Wait()
}

// TestStoredDigestIsKnownOnceRead asks for the digest of the stored bytes before and after a new
// process has read them.
func TestStoredDigestIsKnownOnceRead(t *testing.T) {
	t.Parallel()
	cfg := casdisk.Config{Dir: t.TempDir()}
	store := open(t, cfg)
	d := castest.Put(t, store, []byte("content"))
	want, err := store.Stat(t.Context(), d)
	if err != nil || want.StoredDigest.IsZero() {
		t.Errorf("stat: got %+v, %v, want the digest of the stored bytes", want, err)
	}
	store = reopen(t, store, cfg)
	if info, err := store.Stat(t.Context(), d); err != nil || !info.StoredDigest.IsZero() {
		t.Errorf("stat of unread bytes: got %+v, %v, want no digest", info, err)
	}
	castest.Check(t, store, []byte("content"))
	if info, err := store.Stat(t.Context(), d); err != nil || info != want {
		t.Errorf("stat once they were read: got %+v, %v, want %+v", info, err, want)
	}
}

func TestDamageLooksLikeAbsence(t *testing.T) {
	t.Parallel()
	content := []byte(strings.Repeat("content ", 1000))
	damages := map[string]func(path string, stored []byte) error{
		"flipped": func(path string, stored []byte) error {
			stored[len(stored)/2] ^= 1
			return os.WriteFile(path, stored, 0o600)
		},
		"cut":   func(path string, stored []byte) error { return os.WriteFile(path, stored[:len(stored)-1], 0o600) },
		"empty": func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) },
		"other content": func(path string, _ []byte) error {
			return os.WriteFile(path, castest.Zstd(t, []byte(strings.Repeat("CONTENT ", 1000))), 0o600)
		},
		"lying name": func(path string, _ []byte) error { return os.Rename(path, strings.Replace(path, ".8000", ".7999", 1)) },
		"removed":    func(path string, _ []byte) error { return os.Remove(path) },
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var corrupt []digest.Digest
			cfg := casdisk.Config{Dir: t.TempDir()}
			store := open(t, cfg)
			d := castest.Put(t, store, content)
			cfg.Hooks.Corrupt = func(d digest.Digest, _ error) { corrupt = append(corrupt, d) }
			path := fileOf(t, cfg.Dir, d)
			stored, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := damage(path, stored); err != nil {
				t.Fatal(err)
			}
			store = reopen(t, store, cfg)
			castest.CheckAbsent(t, store, d)
			if left := files(t, filepath.Join(cfg.Dir, "blobs")); len(left) != 0 {
				t.Errorf("files left: got %v, want none", left)
			}
			if want := name != "removed"; want != slices.Equal(corrupt, []digest.Digest{d}) {
				t.Errorf("reported damage: got %v, want a report %t", corrupt, want)
			}
			castest.Put(t, store, content)
			castest.Check(t, store, content)
		})
	}
}

func TestDamageInAVerifiedFileThatChangesItsLength(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, casdisk.Config{Dir: dir})
	d := castest.Put(t, store, []byte("content"))
	castest.Check(t, store, []byte("content"))
	if err := os.Truncate(fileOf(t, dir, d), 3); err != nil {
		t.Fatal(err)
	}
	castest.CheckAbsent(t, store, d)
}

func TestPutRepairsAnUnverifiedBlob(t *testing.T) {
	t.Parallel()
	cfg := casdisk.Config{Dir: t.TempDir()}
	store := open(t, cfg)
	d := castest.Put(t, store, []byte("content"))
	path := fileOf(t, cfg.Dir, d)
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	store = reopen(t, store, cfg)
	castest.Put(t, store, []byte("content"))
	castest.Check(t, store, []byte("content"))
	if got, _ := store.Usage(t.Context()); got.Blobs != 1 || got.Bytes != int64(len(castest.Zstd(t, []byte("content")))) {
		t.Errorf("usage: got %+v, want one blob", got)
	}
}

func TestCrashLeftoversAreSwept(t *testing.T) {
	t.Parallel()
	cfg := casdisk.Config{Dir: t.TempDir()}
	store := open(t, cfg)
	castest.Put(t, store, []byte("content"))
	half := filepath.Join(cfg.Dir, "tmp", "put-123")
	foreign := filepath.Join(cfg.Dir, "blobs", "README")
	for _, path := range []string{half, foreign} {
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store = reopen(t, store, cfg)
	if left := files(t, filepath.Join(cfg.Dir, "tmp")); len(left) != 0 {
		t.Errorf("temporary files: got %v, want none", left)
	}
	if got, err := store.Usage(t.Context()); err != nil || got.Blobs != 1 {
		t.Errorf("usage: got %+v, %v, want the one blob", got, err)
	}
	castest.Check(t, store, []byte("content"))
}

// TestFolderEmptiedWhileRunning removes everything, as an operator who needs room might.
func TestFolderEmptiedWhileRunning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, casdisk.Config{Dir: dir})
	d := castest.Put(t, store, []byte("content"))
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "blobs")), os.RemoveAll(filepath.Join(dir, "tmp"))); err != nil {
		t.Fatal(err)
	}
	castest.CheckAbsent(t, store, d)
	castest.Put(t, store, []byte("content"))
	castest.Check(t, store, []byte("content"))
}

func TestFolderHasOneUser(t *testing.T) {
	t.Parallel()
	cfg := casdisk.Config{Dir: t.TempDir()}
	store := open(t, cfg)
	if _, err := casdisk.Open(cfg); !errors.Is(err, casdisk.ErrInUse) {
		t.Errorf("second open: got %v, want ErrInUse", err)
	}
	reopen(t, store, cfg)
}

// sizeOf returns the stored size of any content of one byte.
func sizeOf(t testing.TB) int64 {
	t.Helper()
	return int64(len(castest.Zstd(t, []byte("a"))))
}

func TestEvictsByLastRead(t *testing.T) {
	t.Parallel()
	var evicted []digest.Digest
	store := open(t, casdisk.Config{MaxBytes: 3 * sizeOf(t), Hooks: casdisk.Hooks{
		Evicted: func(info cas.Info) { evicted = append(evicted, info.Digest) },
	}})
	a := castest.Put(t, store, []byte("a"))
	b := castest.Put(t, store, []byte("b"))
	c := castest.Put(t, store, []byte("c"))
	held, err := store.Open(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	castest.Check(t, store, []byte("a"))
	castest.Put(t, store, []byte("d")) // c was read least recently
	castest.Put(t, store, []byte("e")) // then b, which is still open
	if want := []digest.Digest{c, b}; !slices.Equal(evicted, want) {
		t.Errorf("evicted: got %v, want %v", evicted, want)
	}
	castest.CheckAbsent(t, store, b)
	castest.Check(t, store, []byte("a"))
	stored := make([]byte, held.StoredSize)
	if _, err := held.Read(stored); err != nil || !bytes.Equal(stored, castest.Zstd(t, []byte("b"))) {
		t.Errorf("read of an evicted open blob: got %x, %v, want its bytes", stored, err)
	}
	_ = held.Close()
	if _, err := store.Stat(t.Context(), a); err != nil {
		t.Error(err)
	}
}

func TestEvictionOrderSurvivesRestart(t *testing.T) {
	t.Parallel()
	cfg := casdisk.Config{Dir: t.TempDir(), MaxBytes: 3 * sizeOf(t)}
	store := open(t, cfg)
	now := time.Now()
	for n, content := range []string{"b", "c", "a"} { // from the most recently read one to the first
		d := castest.Put(t, store, []byte(content))
		at := now.Add(-time.Duration(n+1) * time.Hour)
		if err := os.Chtimes(fileOf(t, cfg.Dir, d), at, at); err != nil {
			t.Fatal(err)
		}
	}
	store = reopen(t, store, cfg)
	castest.Check(t, store, []byte("a")) // read the oldest one, which sets its time
	store = reopen(t, store, cfg)
	castest.Put(t, store, []byte("d"))
	castest.CheckAbsent(t, store, digest.FromBytes([]byte("c")))
	for _, content := range []string{"a", "b", "d"} {
		castest.Check(t, store, []byte(content))
	}
}

func TestPins(t *testing.T) {
	t.Parallel()
	keep := digest.FromBytes([]byte("a"))
	store := open(t, casdisk.Config{MaxBytes: 2 * sizeOf(t), Pinned: func(d digest.Digest) bool { return d == keep }})
	for _, content := range []string{"a", "b", "c", "d"} {
		castest.Put(t, store, []byte(content))
	}
	castest.Check(t, store, []byte("a"))
	castest.Check(t, store, []byte("d"))

	all := open(t, casdisk.Config{MaxBytes: 2 * sizeOf(t), Pinned: func(digest.Digest) bool { return true }})
	castest.Put(t, all, []byte("a"))
	castest.Put(t, all, []byte("b"))
	c := digest.FromBytes([]byte("c"))
	if _, err := all.Put(t.Context(), c, bytes.NewReader(castest.Zstd(t, []byte("c")))); !errors.Is(err, cas.ErrFull) {
		t.Errorf("put beside pinned blobs: got %v, want ErrFull", err)
	}
	castest.CheckAbsent(t, all, c)
	if got, _ := all.Usage(t.Context()); got.Bytes != 2*sizeOf(t) {
		t.Errorf("usage after a refused put: got %+v, want the two blobs", got)
	}
	if err := all.Delete(t.Context(), keep); err != nil {
		t.Errorf("delete of a pinned blob: got %v, want nil", err)
	}
	castest.Put(t, all, []byte("c"))
}

func withFaults(inject *faults.Injector) casdisk.Hooks {
	return casdisk.Hooks{Fault: func(op casdisk.Op, _ string) error { return inject.Check(string(op)) }}
}

// TestEveryFailedOperation fails each step of Put once. Nothing may be visible, counted or left on
// disk, and the next Put succeeds.
func TestEveryFailedOperation(t *testing.T) {
	t.Parallel()
	for _, op := range []casdisk.Op{casdisk.OpCreate, casdisk.OpWrite, casdisk.OpSync, casdisk.OpRename, casdisk.OpSyncDir} {
		for _, failure := range []error{syscall.EIO, syscall.ENOSPC} {
			t.Run(fmt.Sprintf("%s %v", op, failure), func(t *testing.T) {
				t.Parallel()
				inject, dir, content := faults.New(), t.TempDir(), []byte("content")
				store := open(t, casdisk.Config{Dir: dir, Hooks: withFaults(inject)})
				inject.FailTimes(string(op), 1, failure)
				_, err := store.Put(t.Context(), digest.FromBytes(content), bytes.NewReader(castest.Zstd(t, content)))
				if !errors.Is(err, failure) || errors.Is(err, cas.ErrFull) != errors.Is(failure, syscall.ENOSPC) {
					t.Errorf("put: got %v, want %v", err, failure)
				}
				castest.CheckAbsent(t, store, digest.FromBytes(content))
				if got, _ := store.Usage(t.Context()); got.Bytes != 0 || got.Blobs != 0 {
					t.Errorf("usage: got %+v, want an empty store", got)
				}
				if left := append(files(t, filepath.Join(dir, "tmp")), files(t, filepath.Join(dir, "blobs"))...); len(left) != 0 {
					t.Errorf("files: got %v, want none", left)
				}
				castest.Put(t, store, content)
				castest.Check(t, store, content)
			})
		}
	}
}

func TestFullDiskEvicts(t *testing.T) {
	t.Parallel()
	inject := faults.New()
	var evicted int
	hooks := withFaults(inject)
	hooks.Evicted = func(cas.Info) { evicted++ }
	store := open(t, casdisk.Config{Hooks: hooks})
	castest.Put(t, store, []byte("a"))
	castest.Put(t, store, []byte("b"))
	inject.FailTimes(string(casdisk.OpWrite), 1, syscall.ENOSPC)
	castest.Put(t, store, []byte("c")) // makes room and succeeds
	castest.Check(t, store, []byte("c"))
	if evicted == 0 {
		t.Error("evicted: got none, want room to be made")
	}
	inject.Fail(string(casdisk.OpWrite), syscall.ENOSPC)
	d := digest.FromBytes([]byte("d"))
	if _, err := store.Put(t.Context(), d, bytes.NewReader(castest.Zstd(t, []byte("d")))); !errors.Is(err, cas.ErrFull) {
		t.Errorf("put on a disk that stays full: got %v, want ErrFull", err)
	}
	inject.Clear(string(casdisk.OpWrite))
	castest.Put(t, store, []byte("d"))
}

func TestReadFaultsAreNotDamage(t *testing.T) {
	t.Parallel()
	inject := faults.New()
	cfg := casdisk.Config{Dir: t.TempDir(), Hooks: withFaults(inject)}
	store := open(t, cfg)
	d := castest.Put(t, store, []byte("content"))
	store = reopen(t, store, cfg)
	inject.FailTimes(string(casdisk.OpOpen), 1, syscall.EMFILE)
	if _, err := store.Open(t.Context(), d); !errors.Is(err, syscall.EMFILE) || errors.Is(err, cas.ErrNotFound) {
		t.Errorf("open without file descriptors: got %v, want EMFILE", err)
	}
	castest.Check(t, store, []byte("content"))
}

func TestRestartVerifiesOnce(t *testing.T) {
	t.Parallel()
	inject := faults.New()
	cfg := casdisk.Config{Dir: t.TempDir()}
	store := open(t, cfg)
	content := []byte("content")
	d := castest.Put(t, store, content)
	cfg.Hooks = withFaults(inject)
	store = reopen(t, store, cfg)
	for range 3 {
		castest.Check(t, store, content)
	}
	if got, want := inject.Count(string(casdisk.OpOpen)), 4; got != want {
		t.Errorf("opened files for three reads: got %d, want %d (one to verify)", got, want)
	}
	if _, err := store.Stat(t.Context(), d); err != nil {
		t.Error(err)
	}
}
