// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package selection

import "github.com/leatdev/leat/internal/kit/ignore"

// Named reports whether a folder is named, and so bundled as a whole.
func (s *Selection) Named(folder string) bool { return s.folders[folder] }

// NamesFile reports whether a file is named.
func (s *Selection) NamesFile(file string) bool { return s.files[file] }

// LeadsOn reports whether a folder or file is named that lies below a folder.
func (s *Selection) LeadsOn(folder string) bool { return s.towards[folder] }

// At is a place in a walk downwards from a commit's root: a folder, with what was decided on the
// way there. It is a value.
type At struct {
	selection *Selection
	folder    string // with a slash at the end, or the root, ""
	inside    bool   // of a named folder
	ignored   bool   // by ignore files or exclude patterns
	included  bool   // by an include pattern that matches this folder or one above
	rules     *ignore.Chain
}

// Start returns the commit's root.
func (s *Selection) Start() At {
	return At{selection: s, inside: s.Named(""), included: s.include == nil}
}

// Below returns the path of an entry of the folder.
func (a At) Below(name string) string { return a.folder + name }

// AsksForRules reports whether the folder's ignore file matters, if there is one.
func (a At) AsksForRules() bool { return !a.ignored }

// WithRules returns the place with the rules of the folder's own ignore file.
func (a At) WithRules(rules *ignore.Rules) At {
	folder := a.folder
	if folder != "" {
		folder = folder[:len(folder)-1]
	}
	a.rules = a.rules.With(folder, rules)
	return a
}

// Enter returns the place of a folder in this one. ok is false where nothing below it can be
// selected.
func (a At) Enter(name string) (below At, ok bool) {
	s, path := a.selection, a.Below(name)
	below = At{
		selection: s, folder: path + "/", rules: a.rules,
		inside:   a.inside || s.Named(path),
		ignored:  a.ignored || a.leavesOut(path, true),
		included: a.included || s.include.Match(path, true) == ignore.Ignored,
	}
	if below.inside && !below.ignored {
		return below, true
	}
	if below.ignored {
		return below, s.towardsFiles[path]
	}
	return below, s.LeadsOn(path)
}

// Takes reports whether a leaf of the folder is selected. A submodule is matched by patterns as the
// folder that it is.
func (a At) Takes(name string, submodule bool) bool {
	s, path := a.selection, a.Below(name)
	if !submodule && s.NamesFile(path) {
		return true
	}
	if !a.inside || a.ignored || (name == IgnoreFile && !submodule) || a.leavesOut(path, submodule) {
		return false
	}
	return a.included || s.include.Match(path, submodule) == ignore.Ignored
}

func (a At) leavesOut(path string, folder bool) bool {
	return a.rules.Ignores(path, folder) || a.selection.exclude.Match(path, folder) == ignore.Ignored
}
