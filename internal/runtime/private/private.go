// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package private keeps a process's folders and files private from other users of the machine,
// regardless of the umask and of who created them. On a system without such modes it only creates
// missing ones.
package private

import (
	"errors"
	"io/fs"
	"os"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
	// others are the permissions of the group and of all other users.
	others = 0o077
)

// Dir creates the folder and its parents with mode 0700. It removes the permissions of other users
// from a folder that already exists. It does not change a folder of another user (a volume that the
// operator shares with this process by its group), nor one with the sticky bit, which is meant for
// all users. Dir is for folders that belong to Leat alone.
func Dir(path string) error {
	if err := os.MkdirAll(path, dirMode); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode()&fs.ModeSticky != 0 {
		return err
	}
	return tighten(path, info)
}

// File creates an empty file with mode 0600 if it does not exist, and removes the permissions of
// other users from one that does.
func File(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return Existing(path)
}

// Existing removes the permissions of other users from a file. It is not an error if the file does
// not exist.
func Existing(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return tighten(path, info)
}

func tighten(path string, info fs.FileInfo) error {
	if info.Mode().Perm()&others == 0 {
		return nil
	}
	err := os.Chmod(path, info.Mode().Perm()&^others)
	if errors.Is(err, fs.ErrPermission) {
		return nil // the other owner decides
	}
	return err
}
