// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package durable writes files that survive a crash whole. A file is written under a temporary name
// beside its place, synced, and renamed: at any instant its name leads to the old content or to all
// of the new one. Lock keeps other processes out of a folder meanwhile.
package durable

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// ErrLocked means that another process, or another caller in this one, holds a lock.
var ErrLocked = errors.New("locked by another process")

// Write makes path hold what fill writes. On an error path holds what it held. The bytes are
// durable when Write returns; the name is durable after [SyncDir]. The file has mode 0600, and
// until it is whole a name made by [os.CreateTemp] from pattern. A crash may leave a file of such a
// name.
func Write(path, pattern string, fill func(io.Writer) error) error {
	return Replace(path, pattern, func(f *os.File) error { return fill(f) })
}

// Replace is Write for a file that needs another mode or group before it gets its name: fill may
// change them.
func Replace(path, pattern string, fill func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), pattern)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already where the rename succeeded
	err = fill(f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// WriteFile makes path hold data. When it returns both the bytes and the name are durable. See
// [Write] for the rest.
func WriteFile(path, pattern string, data []byte) error {
	err := Write(path, pattern, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// WriteJSON is WriteFile with a value as JSON.
func WriteJSON(path, pattern string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return WriteFile(path, pattern, data)
}

// ReadJSON decodes the file at path into a value. It reads the whole file: its size is not bounded.
func ReadJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// SyncDir makes the names in a folder durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
