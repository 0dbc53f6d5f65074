// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package auditfile keeps the audit log in files that are exchanged by size and by age. It is our
// own because of what its callers have to know: which bytes of a failed write are in the file, and
// that none are lost by an exchange.
package auditfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Params set the folder and number of the files. Path is required. Zero means no bound.
type Params struct {
	// Path is the file that is written. Old ones are beside it, with the time of their end in their
	// names: audit.log becomes audit-20261121T014500.000Z.log. Its folder is made when there is none.
	// Every process needs a path of its own.
	Path string
	// MaxSize is the size in bytes that a file does not exceed, unless one write does alone.
	MaxSize int64
	// MaxAge is how long a file is written. After a restart it counts from the file's last write.
	MaxAge time.Duration
	// Keep is how many old files are kept. Beyond that number, those younger than KeepAtLeast are
	// kept too.
	Keep int
	// KeepAtLeast is how long an old file is kept, regardless of how many there are, so that an
	// attacker cannot rotate records away by filling the log. KeepFor takes precedence. Zero: no
	// minimum.
	KeepAtLeast time.Duration
	// KeepFor is how long old files are kept.
	KeepFor time.Duration
	// Sync makes every write wait until it is on the disk. Without it, written records survive the end
	// of the process, and of the machine's end the part that the kernel has written out, usually all
	// but the last half minute.
	Sync bool
}

// File is an io.WriteCloser. It is safe for concurrent use.
type File struct {
	params Params

	mu    sync.Mutex
	file  *os.File // nil when it could not be opened, and after Close
	size  int64
	begun time.Time
	last  time.Time // of the newest old file's name
	ended bool
}

// Open opens the file, and appends to it.
func Open(params Params) (*File, error) {
	f := &File{params: params}
	if err := os.MkdirAll(filepath.Dir(params.Path), 0o700); err != nil {
		return nil, fmt.Errorf("make folder of audit log: %w", err)
	}
	if err := f.open(); err != nil {
		return nil, err
	}
	if err := f.endLine(); err != nil {
		_ = f.file.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) open() error {
	file, err := os.OpenFile(f.params.Path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open audit log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("open audit log: %w", err)
	}
	f.file, f.size, f.begun = file, info.Size(), time.Now()
	if f.size > 0 {
		f.begun = info.ModTime()
	}
	return nil
}

// endLine ends a line that a process could not finish, so that the next one has a line of its own.
func (f *File) endLine() error {
	if f.size == 0 {
		return nil
	}
	var last [1]byte
	if _, err := f.file.ReadAt(last[:], f.size-1); err != nil {
		return fmt.Errorf("read end of audit log: %w", err)
	}
	if last[0] == '\n' {
		return nil
	}
	n, err := f.file.WriteString("\n")
	f.size += int64(n)
	if err != nil {
		return fmt.Errorf("write audit log: %w", err)
	}
	return nil
}

// Write implements io.Writer. One write is never split over two files.
func (f *File) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return 0, os.ErrClosed
	}
	if f.isDue(int64(len(p))) {
		f.exchange()
	}
	if f.file == nil {
		if err := f.open(); err != nil {
			return 0, err
		}
	}
	n, err := f.file.Write(p)
	f.size += int64(n)
	if err == nil && f.params.Sync {
		err = f.file.Sync()
		if err != nil {
			n = 0 // whether it is on the disk is not known
		}
	}
	return n, err
}

// Prompt reports whether a write would wait for the page cache at most: not where it waits for the
// disk.
func (f *File) Prompt(int64) bool { return !f.params.Sync }

// isDue reports whether so many more bytes belong into a new file.
func (f *File) isDue(more int64) bool {
	if f.file == nil || f.size == 0 {
		return false
	}
	return f.params.MaxSize > 0 && f.size+more > f.params.MaxSize ||
		f.params.MaxAge > 0 && time.Since(f.begun) >= f.params.MaxAge
}

// exchange lets a new file begin. When the old one cannot be renamed it is written on: too large a
// file is better than none.
func (f *File) exchange() {
	if err := os.Rename(f.params.Path, f.oldName()); err != nil {
		return
	}
	_ = f.file.Close() // every write has returned
	f.file = nil
	f.prune()
}

const nameTime = "20060102T150405.000Z"

// split returns what precedes and what follows the time in the names of old files.
func (f *File) split() (prefix, ext string) {
	ext = filepath.Ext(f.params.Path)
	return strings.TrimSuffix(f.params.Path, ext) + "-", ext
}

// oldName is a name that no file has, and that sorts behind all before.
func (f *File) oldName() string {
	prefix, ext := f.split()
	now := time.Now().UTC().Truncate(time.Millisecond)
	if !now.After(f.last) {
		now = f.last.Add(time.Millisecond)
	}
	for {
		f.last = now
		name := prefix + now.Format(nameTime) + ext
		if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
			return name
		}
		now = now.Add(time.Millisecond)
	}
}

// prune deletes old files that are too many or too old. One that cannot be deleted now can be the
// next time.
func (f *File) prune() {
	prefix, ext := f.split()
	entries, err := os.ReadDir(filepath.Dir(f.params.Path))
	if err != nil {
		return
	}
	var old []time.Time
	for _, entry := range entries {
		name, isOurs := strings.CutPrefix(entry.Name(), filepath.Base(prefix))
		ended, err := time.Parse(nameTime, strings.TrimSuffix(name, ext))
		if isOurs && err == nil && entry.Type().IsRegular() {
			old = append(old, ended)
		}
	}
	slices.SortFunc(old, func(a, b time.Time) int { return b.Compare(a) })
	for i, ended := range old {
		age := time.Since(ended)
		tooMany := f.params.Keep > 0 && i >= f.params.Keep && (f.params.KeepAtLeast <= 0 || age >= f.params.KeepAtLeast)
		if tooMany || f.params.KeepFor > 0 && age > f.params.KeepFor {
			_ = os.Remove(prefix + ended.Format(nameTime) + ext)
		}
	}
}

// Close implements io.Closer.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	if f.file == nil {
		return nil
	}
	err := errors.Join(f.file.Sync(), f.file.Close())
	f.file = nil
	if err != nil {
		return fmt.Errorf("close audit log: %w", err)
	}
	return nil
}
