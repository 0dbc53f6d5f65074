// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"path"
	"strings"

	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/ignore"
)

// maxSelected is how many elements each list of a source may have. gitcache has the same limit.
const maxSelected = 100

// ignoreFile is the name of ignore files, which are never bundled.
const ignoreFile = ".leatignore"

func (s Source) validateSelection(field string) error {
	return cmp.Or(
		fielderr.Each(field+".folders", "elements", s.Folders.Items(), maxSelected, validateFolder),
		fielderr.Each(field+".files", "elements", s.Files.Items(), maxSelected, validateFile),
		fielderr.Each(field+".include", "elements", s.Include.Items(), maxSelected, validatePattern),
		fielderr.Each(field+".exclude", "elements", s.Exclude.Items(), maxSelected, validatePattern),
	)
}

func validateFile(field, file string) error {
	if err := validateFolder(field, file); err != nil {
		return err
	}
	switch {
	case cleanFolder(file) == "" || strings.HasSuffix(file, "/") || path.Base(file) == ".":
		return fielderr.New(field, "%q does not name a file", file)
	case path.Base(cleanFolder(file)) == ignoreFile:
		return fielderr.New(field, "files named %s are never bundled", ignoreFile)
	}
	return nil
}

func validatePattern(field, pattern string) error {
	if err := ignore.CheckLine(pattern); err != nil {
		return fielderr.New(field, "%q %v", pattern, err)
	}
	return nil
}
