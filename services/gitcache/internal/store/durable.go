// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"os"
	"path/filepath"
)

// writeAtomic makes path hold data: after a crash at any instant it holds either what it held
// before or all of data.
func writeAtomic(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), temporaryPattern)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already where the rename succeeded
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// syncPacks makes all packs durable and returns their sizes. Packs are small in number and
// immutable, so that syncing one again costs nothing.
func syncPacks(dir string) (map[string]int64, error) {
	folder := packFolder(dir)
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	packs := make(map[string]int64, len(entries))
	for _, e := range entries {
		size, err := syncFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		packs[e.Name()] = size
	}
	if len(entries) == 0 {
		return packs, nil
	}
	return packs, syncDir(folder)
}

func syncFile(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return 0, err
	}
	return info.Size(), nil
}
