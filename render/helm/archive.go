// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"strings"

	"helm.sh/helm/v4/pkg/chart/loader/archive"

	"github.com/leatdev/leat/render"
)

// unpacked ends the names of folders that stand for archives, as it does in bundles whose
// dependencies the hub has packed. Helm would read a folder that ends with .tgz as an archive.
const unpacked = ".unpacked"

// unpacker collects the files of a chart, with the files of the archives in its folder charts. Helm
// bounds the files of an archive, but not their number, nor archives in archives. The unpacker
// counts every byte that comes out of one, and measures YAML before anything decodes it.
type unpacker struct {
	limits render.Limits
	room   int64 // bytes that archives may still unpack to
	files  []*archive.BufferedFile
}

// add adds a file of the chart. place is the file of the tree that it comes from.
func (u *unpacker) add(place, name string, content []byte) error {
	if isArchive(name) {
		return u.unpack(place, name, content)
	}
	if isYAML(name) {
		if err := checkAliases(place, content, u.limits); err != nil {
			return err
		}
	}
	u.files = append(u.files, &archive.BufferedFile{Name: name, Data: bytes.Clone(bytes.TrimPrefix(content, byteOrderMark))})
	return nil
}

// isArchive reports whether Helm takes a file for a packed dependency.
func isArchive(name string) bool {
	folder, base := path.Split(name)
	return path.Ext(base) == ".tgz" && path.Base(folder) == "charts" && strings.IndexAny(base, "_.") != 0
}

func (u *unpacker) unpack(place, name string, content []byte) error {
	if err := u.measure(place, content); err != nil {
		return err
	}
	files, err := archive.LoadArchiveFiles(bytes.NewReader(content))
	if err != nil {
		return &render.Error{Path: place, Cause: fmt.Errorf("unpack chart: %w", err)}
	}
	for _, file := range files {
		if err := u.add(place, path.Join(name+unpacked, file.Name), file.Data); err != nil {
			return err
		}
	}
	return nil
}

// measure counts what an archive unpacks to, headers included.
func (u *unpacker) measure(place string, content []byte) error {
	unzipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return &render.Error{Path: place, Cause: fmt.Errorf("unpack chart: %w", err)}
	}
	size, err := io.Copy(io.Discard, io.LimitReader(unzipped, u.room+1))
	if err != nil {
		return &render.Error{Path: place, Cause: fmt.Errorf("unpack chart: %w", err)}
	}
	if u.room -= size; u.room < 0 {
		return &render.LimitError{Path: place, Limit: render.LimitBytes, Message: fmt.Sprintf(
			"the packed dependencies of the chart have more than %d MiB unpacked; leave out what is not needed", u.limits.Bytes>>20)}
	}
	return nil
}
