// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package archive writes archives whose bytes follow from their content: the entries, sorted by name,
// and one time for all of them. An archive holds neither names of users nor times of the machine that
// writes it. Compressed bytes also follow from the version of Go, whose compressors it uses.
package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
)

// Entry is a file or a folder in an archive.
type Entry struct {
	// Name is the path in the archive, with slashes between its parts and none at its ends.
	Name string
	// Mode holds the permissions. With fs.ModeDir the entry is a folder.
	Mode fs.FileMode
	// UID and GID are the owner's. A zip does not hold them.
	UID, GID int
	// File is the path of the file with the content. If it is empty, Content is the content.
	File    string
	Content []byte
}

// Tar writes a tar of the entries, which were all modified at the given time.
func Tar(w io.Writer, modified time.Time, entries []Entry) error {
	archive := tar.NewWriter(w)
	for _, e := range sorted(entries) {
		content, size, err := e.open()
		if err != nil {
			return err
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.Name, Size: size, Mode: int64(e.Mode.Perm()), Uid: e.UID, Gid: e.GID,
			ModTime: modified.UTC().Truncate(time.Second),
		}
		if e.Mode.IsDir() {
			header.Typeflag, header.Name = tar.TypeDir, e.Name+"/"
		}
		err = archive.WriteHeader(header)
		if err == nil {
			_, err = io.Copy(archive, content)
		}
		if err := errors.Join(err, content.Close()); err != nil {
			return fmt.Errorf("write %s: %w", e.Name, err)
		}
	}
	return archive.Close()
}

// TarGz writes what Tar does, compressed with gzip.
func TarGz(w io.Writer, modified time.Time, entries []Entry) error {
	zipped := gzip.NewWriter(w) // its header has no time
	if err := Tar(zipped, modified, entries); err != nil {
		return err
	}
	return zipped.Close()
}

// Zip writes a zip of the entries, which were all modified at the given time.
func Zip(w io.Writer, modified time.Time, entries []Entry) error {
	archive := zip.NewWriter(w)
	for _, e := range sorted(entries) {
		content, _, err := e.open()
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: e.Name, Method: zip.Deflate, Modified: modified.UTC().Truncate(time.Second)}
		if e.Mode.IsDir() {
			header.Name += "/"
		}
		header.SetMode(e.Mode)
		member, err := archive.CreateHeader(header)
		if err == nil {
			_, err = io.Copy(member, content)
		}
		if err := errors.Join(err, content.Close()); err != nil {
			return fmt.Errorf("write %s: %w", e.Name, err)
		}
	}
	return archive.Close()
}

func sorted(entries []Entry) []Entry {
	return slices.SortedFunc(slices.Values(entries), func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
}

// open returns the content of an entry and its size. A folder has none.
func (e Entry) open() (io.ReadCloser, int64, error) {
	if e.Mode.IsDir() || e.File == "" {
		return io.NopCloser(bytes.NewReader(e.Content)), int64(len(e.Content)), nil
	}
	f, err := os.Open(e.File)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}
