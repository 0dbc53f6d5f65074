// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package selection decides which part of a commit is bundled.
//
// A source names folders and files. A file in its folders is bundled unless a ".leatignore" file
// ignores it, its exclude patterns match it, or it has include patterns and none matches it; each
// of the three judges on its own. A file that is named itself is bundled regardless of them. All
// paths and patterns are relative to the repository's root; the names in the bundle are relative to
// the deepest folder that holds everything named, which is the folder itself where there is only
// one.
package selection

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/kit/ignore"
	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// IgnoreFile is the name of the files that hold ignore rules. They are not bundled themselves.
const IgnoreFile = ".leatignore"

// MaxItems is how many elements each list of a [Spec] may have.
const MaxItems = 100

// Spec is a selection as a source spells it.
type Spec struct {
	// Path is the folder of interest; "" or "." is the repository's root.
	Path string
	// Root is a folder that holds Path and is bundled in its place. Empty: Path itself.
	Root string
	// Folders and Files are bundled too.
	Folders, Files []string
	// Include and Exclude are patterns in the syntax of gitignore(5), as if they stood in the
	// repository's root.
	Include, Exclude []string
}

// FieldError names the wrong field of a [Spec].
type FieldError struct {
	Field  string // such as "folders[2]"
	Reason string // a sentence
}

// Error implements error.
func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// Selection is a checked [Spec]. It is immutable, and may be used concurrently.
type Selection struct {
	path, base string
	folders    map[string]bool // none inside of another
	files      map[string]bool
	// towards are the folders above a named folder or file, towardsFiles those above a named file.
	towards, towardsFiles map[string]bool

	include, exclude *ignore.Rules // include nil: everything
	key              string
}

// New checks a spec. The error is a [*FieldError].
func New(spec Spec) (*Selection, error) {
	s := &Selection{
		folders: map[string]bool{}, files: map[string]bool{}, towards: map[string]bool{}, towardsFiles: map[string]bool{},
	}
	for i, list := range [][]string{spec.Folders, spec.Files, spec.Include, spec.Exclude} {
		if len(list) > MaxItems {
			field := [...]string{"folders", "files", "include", "exclude"}[i]
			return nil, &FieldError{field, fmt.Sprintf("It may have %d elements.", MaxItems)}
		}
	}
	if err := s.addFolders(spec); err != nil {
		return nil, err
	}
	if err := s.addFiles(spec.Files); err != nil {
		return nil, err
	}
	if err := s.addPatterns(spec); err != nil {
		return nil, err
	}
	s.base = s.commonFolder()
	s.key = s.hash(spec)
	return s, nil
}

func (s *Selection) addFolders(spec Spec) error {
	var err error
	if s.path, err = cleanFolder("path", spec.Path); err != nil {
		return err
	}
	root := s.path
	if spec.Root != "" {
		if root, err = cleanFolder("root", spec.Root); err != nil {
			return err
		}
	}
	if !content.Inside(s.path, root) {
		return &FieldError{"root", fmt.Sprintf("It must contain the path %q.", s.path)}
	}
	all := []string{root}
	for i, folder := range spec.Folders {
		if folder, err = cleanFolder(indexed("folders", i), folder); err != nil {
			return err
		}
		all = append(all, folder)
	}
	for _, folder := range all {
		outer := func(other string) bool { return other != folder && content.Inside(folder, other) }
		if !slices.ContainsFunc(all, outer) {
			s.folders[folder] = true
			addParents(s.towards, folder)
		}
	}
	return nil
}

func (s *Selection) addFiles(files []string) error {
	for i, file := range files {
		clean, err := content.CleanFolder(file)
		switch {
		case err != nil || clean == "" || strings.HasSuffix(file, "/"):
			return &FieldError{indexed("files", i), "It must name a file, relative to the repository's root, without '..'."}
		case path.Base(clean) == IgnoreFile:
			return &FieldError{indexed("files", i), "Files named " + IgnoreFile + " are not bundled."}
		}
		s.files[clean] = true
		addParents(s.towards, clean)
		addParents(s.towardsFiles, clean)
	}
	return nil
}

func (s *Selection) addPatterns(spec Spec) error {
	if err := checkPatterns("include", spec.Include); err != nil {
		return err
	}
	if err := checkPatterns("exclude", spec.Exclude); err != nil {
		return err
	}
	s.exclude = ignore.ParseLines(spec.Exclude)
	if len(spec.Include) > 0 {
		s.include = ignore.ParseLines(spec.Include)
	}
	return nil
}

func checkPatterns(field string, lines []string) error {
	for i, line := range lines {
		if err := ignore.CheckLine(line); err != nil {
			return &FieldError{indexed(field, i), fmt.Sprintf("The pattern %v.", err)}
		}
	}
	return nil
}

func cleanFolder(field, folder string) (string, error) {
	clean, err := content.CleanFolder(folder)
	if err != nil {
		return "", &FieldError{field, "It must be relative to the repository's root, without '..'."}
	}
	return clean, nil
}

func indexed(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

// parent returns the folder that holds a path; the root is "".
func parent(of string) string {
	return of[:max(strings.LastIndexByte(of, '/'), 0)]
}

// addParents adds all folders above a path, the root among them.
func addParents(to map[string]bool, of string) {
	for of != "" {
		of = parent(of)
		to[of] = true
	}
}

// commonFolder returns the deepest folder that holds everything named.
func (s *Selection) commonFolder() string {
	holders := slices.Collect(maps.Keys(s.folders))
	for file := range s.files {
		holders = append(holders, parent(file))
	}
	common := holders[0]
	for _, folder := range holders[1:] {
		for !content.Inside(folder, common) {
			common = parent(common)
		}
	}
	return common
}

// hash covers everything that the selection depends on, apart from the commit.
func (s *Selection) hash(spec Spec) string {
	h := NewHash("selection")
	h.Add(s.path)
	h.Add(slices.Sorted(maps.Keys(s.folders))...)
	h.Add(slices.Sorted(maps.Keys(s.files))...)
	h.Add(spec.Include...)
	h.Add(spec.Exclude...)
	return h.Sum()
}

// Key names the selection: equal keys select the same of every commit.
func (s *Selection) Key() string { return s.key }

// Base is the folder that names in the bundle are relative to.
func (s *Selection) Base() string { return s.base }

// NameOf returns the name in the bundle of a path in the repository.
func (s *Selection) NameOf(path string) string {
	if s.base != "" {
		return strings.TrimPrefix(path, s.base+"/")
	}
	return path
}

// Path is the folder of interest.
func (s *Selection) Path() string { return s.path }

// Folders are the folders that are named, and bundled as a whole; none lies inside of another.
// Rising.
func (s *Selection) Folders() []string { return slices.Sorted(maps.Keys(s.folders)) }

// Files are the files that are named. Rising.
func (s *Selection) Files() []string { return slices.Sorted(maps.Keys(s.files)) }
