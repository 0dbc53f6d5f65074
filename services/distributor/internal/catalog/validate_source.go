// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
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
	for _, part := range []struct {
		name  string
		items List
		check func(field, item string) error
	}{
		{"folders", s.Folders, validateFolder},
		{"files", s.Files, validateFile},
		{"include", s.Include, validatePattern},
		{"exclude", s.Exclude, validatePattern},
	} {
		items := part.items.Items()
		if len(items) > maxSelected {
			return fielderr.New(field+"."+part.name, "has %d elements; at most %d are allowed", len(items), maxSelected)
		}
		for i, item := range items {
			if err := part.check(indexed(field+"."+part.name, i), item); err != nil {
				return err
			}
		}
	}
	return nil
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
