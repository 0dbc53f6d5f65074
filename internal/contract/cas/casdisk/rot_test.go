// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casdisk_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/cas/casdisk"
	"github.com/leatdev/leat/internal/contract/cas/castest"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/testkit/faults"
)

// TestRotWhileServing changes files of blobs that this process has already verified.
func TestRotWhileServing(t *testing.T) {
	t.Parallel()
	content := castest.Noise(1, 100<<10)
	for name, change := range map[string]func(path string) error{
		"flip":     func(path string) error { return flip(path, 50<<10) },
		"truncate": func(path string) error { return os.Truncate(path, 1000) },
		"grow":     func(path string) error { return os.Truncate(path, 200<<10) },
		"remove":   os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			store := open(t, casdisk.Config{Dir: dir})
			d := castest.Put(t, store, content)
			castest.Check(t, store, content)
			if err := change(fileOf(t, dir, d)); err != nil {
				t.Fatal(err)
			}
			castest.CheckAbsent(t, store, d)
			castest.Put(t, store, content)
			castest.Check(t, store, content)
		})
	}
}

// flip changes one bit of a file.
func flip(path string, at int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	bit := make([]byte, 1)
	_, err = f.ReadAt(bit, at)
	bit[0] ^= 16
	_, err2 := f.WriteAt(bit, at)
	return errors.Join(err, err2, f.Close())
}

// TestHarmlessTouch changes only a file's time.
func TestHarmlessTouch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, casdisk.Config{Dir: dir})
	path := fileOf(t, dir, castest.Put(t, store, []byte("content")))
	stored, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, stored, 0o600); err != nil {
		t.Fatal(err)
	}
	castest.Check(t, store, []byte("content"))
	if err := flip(path, 5); err != nil { // perhaps within the resolution of the kernel's clock
		t.Fatal(err)
	}
	castest.CheckAbsent(t, store, digest.FromBytes([]byte("content")))
}

// TestRestlessFile changes a file's time whenever the store checks it.
func TestRestlessFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := time.Now()
	store := open(t, casdisk.Config{Dir: dir, Hooks: casdisk.Hooks{Fault: func(op casdisk.Op, path string) error {
		if op == casdisk.OpOpen {
			at = at.Add(time.Second)
			return os.Chtimes(path, at, at)
		}
		return nil
	}}})
	castest.CheckAbsent(t, store, castest.Put(t, store, []byte("content")))
}

// TestReadErrorsDropTheBlob damages blobs that are already open.
func TestReadErrorsDropTheBlob(t *testing.T) {
	t.Parallel()
	content := castest.Noise(1, 100<<10)
	d := digest.FromBytes(content)
	for name, test := range map[string]struct {
		inject error // inject an error, or otherwise truncate the file
		read   func(*cas.Blob) error
	}{
		"read fails":        {syscall.EIO, func(b *cas.Blob) error { return drain(b) }},
		"read ends early":   {nil, func(b *cas.Blob) error { return drain(b) }},
		"read at fails":     {syscall.EIO, readAt},
		"read at is short":  {nil, readAt},
		"copy by kernel":    {nil, copyByKernel},
		"other reads, then": {nil, func(b *cas.Blob) error { return errors.Join(copyByKernel(b), drain(b)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inject, dir, corrupt := faults.New(), t.TempDir(), 0
			hooks := withFaults(inject)
			hooks.Corrupt = func(digest.Digest, error) { corrupt++ }
			store := open(t, casdisk.Config{Dir: dir, Hooks: hooks})
			castest.Put(t, store, content)
			blob, err := store.Open(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			if test.inject != nil {
				inject.FailTimes(string(casdisk.OpServe), 1, test.inject)
			} else if err := os.Truncate(fileOf(t, dir, d), 60<<10); err != nil {
				t.Fatal(err)
			}
			if err := test.read(blob); err == nil {
				t.Error("got the whole blob, want an error")
			}
			_ = blob.Close()
			if _, err := store.Stat(t.Context(), d); !errors.Is(err, cas.ErrNotFound) || corrupt != 1 {
				t.Errorf("got %v and %d reports, want the blob dropped", err, corrupt)
			}
			castest.Put(t, store, content)
			castest.Check(t, store, content)
		})
	}
}

func drain(blob *cas.Blob) error {
	_, err := io.Copy(io.Discard, blob)
	return err
}

func readAt(blob *cas.Blob) error {
	_, err := blob.ReadSeekCloser.(io.ReaderAt).ReadAt(make([]byte, blob.StoredSize), 0)
	return err
}

// copyByKernel sends a blob through a socket, as net/http does.
func copyByKernel(blob *cas.Blob) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	received := make(chan int64)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		n, _ := io.Copy(io.Discard, conn)
		received <- n
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return err
	}
	if _, ok := blob.ReadSeekCloser.(syscall.Conn); !ok {
		return errors.New("the kernel cannot copy")
	}
	_, failed := io.CopyN(conn, blob.ReadSeekCloser, blob.StoredSize)
	if err := conn.Close(); err != nil {
		return err
	}
	if n := <-received; n < blob.StoredSize {
		return errors.Join(failed, io.ErrUnexpectedEOF)
	}
	return nil
}

func TestKernelCopiesABlob(t *testing.T) {
	t.Parallel()
	inject := faults.New()
	store := open(t, casdisk.Config{Hooks: withFaults(inject)})
	d := castest.Put(t, store, castest.Noise(1, 100<<10))
	blob, err := store.Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if err := copyByKernel(blob); err != nil {
		t.Errorf("copy: %v", err)
	}
	if err := blob.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if got := inject.Count(string(casdisk.OpServe)); got != 0 {
		t.Errorf("reads: got %d, want the kernel to have copied", got)
	}
	if _, err := store.Stat(t.Context(), d); err != nil {
		t.Errorf("stat: got %v, want the blob kept", err)
	}
}

// TestDamageWhileFilling changes the temporary file while it is written. The fill and its readers
// fail, and the next fill succeeds.
func TestDamageWhileFilling(t *testing.T) {
	t.Parallel()
	content := castest.Noise(1, 1<<20)
	stored := castest.Zstd(t, content)
	for name, change := range map[string]func(path string) error{
		"flip":     func(path string) error { return flip(path, 300<<10) },
		"truncate": func(path string) error { return os.Truncate(path, 1000) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			store := open(t, casdisk.Config{Dir: dir})
			draft := store.Begin(digest.FromBytes(content))
			follower := draft.Follow(t.Context())
			source := io.MultiReader(bytes.NewReader(stored[:800<<10]), readerFunc(func([]byte) (int, error) {
				if err := change(files(t, filepath.Join(dir, "tmp"))[0]); err != nil {
					t.Error(err)
				}
				return 0, io.EOF
			}), bytes.NewReader(stored[800<<10:]))
			if _, err := draft.Fill(t.Context(), source); !errors.Is(err, syscall.EIO) {
				t.Errorf("fill: got %v, want EIO", err)
			}
			if _, err := io.ReadAll(follower); err == nil {
				t.Error("follow: got to the end, want an error")
			}
			_ = follower.Close()
			castest.CheckAbsent(t, store, digest.FromBytes(content))
			castest.Put(t, store, content)
			castest.Check(t, store, content)
			if left := files(t, filepath.Join(dir, "tmp")); len(left) != 0 {
				t.Errorf("temporary files: got %v, want none", left)
			}
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestUnremovableFilesStayCounted prevents the disk from removing anything for a while.
func TestUnremovableFilesStayCounted(t *testing.T) {
	t.Parallel()
	inject, dir := faults.New(), t.TempDir()
	store := open(t, casdisk.Config{Dir: dir, MaxBytes: 3 * sizeOf(t), Hooks: withFaults(inject)})
	a := castest.Put(t, store, []byte("a"))
	castest.Put(t, store, []byte("b"))
	inject.Fail(string(casdisk.OpRemove), syscall.EIO)
	if err := os.Truncate(fileOf(t, dir, a), 3); err != nil {
		t.Fatal(err)
	}
	castest.CheckAbsent(t, store, a)
	d := digest.FromBytes([]byte("d"))
	wrong := bytes.NewReader(castest.Zstd(t, []byte("e")))
	if _, err := store.Put(t.Context(), d, wrong); !errors.Is(err, digest.ErrMismatch) {
		t.Errorf("put of wrong bytes: got %v, want a mismatch", err)
	}
	if got, _ := store.Usage(t.Context()); got.Blobs != 1 || got.Bytes != 3*sizeOf(t) {
		t.Errorf("usage: got %+v, want one blob and what could not be removed", got)
	}
	if _, err := store.Put(t.Context(), d, bytes.NewReader(castest.Zstd(t, []byte("d")))); !errors.Is(err, cas.ErrFull) {
		t.Errorf("put without room: got %v, want ErrFull", err)
	}
	inject.Clear(string(casdisk.OpRemove))
	castest.Put(t, store, []byte("a"))
	castest.Put(t, store, []byte("d"))
	if got := len(files(t, dir)); got != 4 {
		t.Errorf("files: got %d, want three blobs and the lock", got)
	}
}

// TestFlipWithoutMeaning lets a first reading by a new process get a bit wrong that does not change
// the content. What the store then says of the bytes must be true of those that it serves.
func TestFlipWithoutMeaning(t *testing.T) {
	t.Parallel()
	content := castest.Noise(1, 5000)
	cfg := casdisk.Config{Dir: t.TempDir()}
	store := open(t, cfg)
	d := castest.Put(t, store, content)
	// The byte after the magic number, and its unused bit: RFC 8878, section 3.1.1.1.1.
	const descriptor, unused = 4, 1 << 4
	read, flipped := 0, false
	cfg.Hooks.Damage = func(op casdisk.Op, _ string, p []byte) []byte {
		if op == casdisk.OpRead && !flipped {
			if flipped = read+len(p) > descriptor; flipped {
				p[descriptor-read] ^= unused
			}
			read += len(p)
		}
		return p
	}
	store = reopen(t, store, cfg)
	castest.CheckAbsent(t, store, d)
	if !flipped {
		t.Error("the frame's descriptor was not read, want it to have been damaged")
	}
	castest.Put(t, store, content)
	castest.Check(t, store, content)
}
