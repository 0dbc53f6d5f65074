// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casdisk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/leatdev/leat/internal/kit/durable"
	"github.com/leatdev/leat/internal/kit/volume"
)

// disk is the store's only access to the file system. Each operation passes the hooks.
type disk struct {
	hooks Hooks
}

func (d *disk) fault(op Op, path string) error {
	if d.hooks.Fault == nil {
		return nil
	}
	return d.hooks.Fault(op, path)
}

// try makes an operation, unless a fault replaces it.
func (d *disk) try(op Op, path string, operate func() error) error {
	if err := d.fault(op, path); err != nil {
		return err
	}
	return operate()
}

// damage returns the bytes that replace p on its way to or from the disk.
func (d *disk) damage(op Op, path string, p []byte) []byte {
	if d.hooks.Damage == nil {
		return p
	}
	return d.hooks.Damage(op, path, p)
}

func (d *disk) makeDirs(path string) error {
	return d.try(OpMkdir, path, func() error { return os.MkdirAll(path, 0o700) })
}

func (d *disk) lock(path string) (io.Closer, error) {
	if err := d.fault(OpLock, path); err != nil {
		return nil, err
	}
	lock, err := durable.Lock(path)
	switch {
	case errors.Is(err, durable.ErrLocked):
		return nil, ErrInUse
	case errors.Is(err, errors.ErrUnsupported): // there the operator must start only one process per folder
		return io.NopCloser(nil), nil
	}
	return lock, err
}

func (d *disk) list(path string) ([]fs.DirEntry, error) {
	if err := d.fault(OpList, path); err != nil {
		return nil, err
	}
	return os.ReadDir(path)
}

func (d *disk) stat(item fs.DirEntry, path string) (fs.FileInfo, error) {
	if err := d.fault(OpStat, path); err != nil {
		return nil, err
	}
	return item.Info()
}

func (d *disk) create(dir, pattern string) (*file, error) {
	if err := d.fault(OpCreate, dir); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, err
	}
	return &file{disk: d, os: f, path: f.Name(), read: OpRead}, nil
}

func (d *disk) open(path string) (*file, error) {
	if err := d.fault(OpOpen, path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &file{disk: d, os: f, path: path, read: OpRead}, nil
}

func (d *disk) rename(from, to string) error {
	return d.try(OpRename, to, func() error { return os.Rename(from, to) })
}

func (d *disk) syncDir(path string) error {
	return d.try(OpSyncDir, path, func() error { return durable.SyncDir(path) })
}

// remove removes a file. Readers that have it open can continue. Removing an absent file is not an
// error.
func (d *disk) remove(path string) error {
	err := d.try(OpRemove, path, func() error { return os.Remove(path) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (d *disk) removeAll(path string) error {
	return d.try(OpRemove, path, func() error { return os.RemoveAll(path) })
}

func (d *disk) touch(path string, at time.Time) error {
	return d.try(OpTouch, path, func() error { return os.Chtimes(path, at, at) })
}

// space returns the free and the total bytes of the file system.
func (d *disk) space(path string) (free, total int64, err error) {
	if err := d.fault(OpSpace, path); err != nil {
		return 0, 0, err
	}
	if d.hooks.Space != nil {
		free, total = d.hooks.Space()
		return free, total, nil
	}
	return volume.Space(path)
}

// file is an open file of the store.
type file struct {
	disk *disk
	os   *os.File
	path string
	read Op // OpRead or OpServe
}

// Read implements io.Reader.
func (f *file) Read(p []byte) (int, error) {
	if err := f.disk.fault(f.read, f.path); err != nil {
		return 0, err
	}
	n, err := f.os.Read(p)
	return len(f.disk.damage(f.read, f.path, p[:n])), err
}

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.disk.fault(f.read, f.path); err != nil {
		return 0, err
	}
	n, err := f.os.ReadAt(p, offset)
	return len(f.disk.damage(f.read, f.path, p[:n])), err
}

// Write implements io.Writer.
func (f *file) Write(p []byte) (int, error) {
	if err := f.disk.fault(OpWrite, f.path); err != nil {
		return 0, err
	}
	if f.disk.hooks.Damage == nil {
		return f.os.Write(p)
	}
	if n, err := f.os.Write(f.disk.damage(OpWrite, f.path, append([]byte(nil), p...))); err != nil {
		return n, err
	}
	return len(p), nil // also if Hooks.Damage dropped bytes: the writer must not notice
}

func (f *file) sync() error { return f.disk.try(OpSync, f.path, f.os.Sync) }

func (f *file) stat() (fs.FileInfo, error) {
	if err := f.disk.fault(OpStat, f.path); err != nil {
		return nil, err
	}
	return f.os.Stat()
}

// Close implements io.Closer.
func (f *file) Close() error {
	return f.os.Close()
}

func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
