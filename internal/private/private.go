// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package private keeps folders and files of a process from other users of the machine, whatever the umask is and whoever made them.
// Where the system has no such modes, it only makes what is missing.
package private

import (
	"errors"
	"io/fs"
	"os"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
	// others are the rights of the group and of everybody else.
	others = 0o077
)

// Dir makes the folder and what leads to it, with mode 0700. It takes the rights of others away from a folder that is there already. A
// folder that belongs to another user stays as it is (a volume that the operator shares with this process by its group), and so
// does one with the sticky bit, which is meant for all. Dir is for folders that belong to Leat alone.
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

// File makes an empty file with mode 0600 if there is none, and takes the rights of others away from one that is there.
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

// Existing takes the rights of others away from a file. A file that is not there is no error.
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
		return nil // it belongs to somebody else, whose decision it is
	}
	return err
}
