// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package gitref parses the forms in which users write a branch, a tag or a commit.
package gitref

import (
	"regexp"
	"strings"

	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

var commitID = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// The prefixes of a tag and of a short commit. A bare name is always a branch: if it could also be
// a tag, anybody who pushes a branch with a tag's name would change what runs. No branch can have
// this form, because Git allows no colon in names.
const (
	tagMark    = "tag:"
	commitMark = "commit:"
)

// Usage lists the forms in one line.
const Usage = "branch, tag:NAME, commit id, commit:SHORT or refs/…"

// Parse parses a ref. It returns nil for an empty text.
func Parse(text string) *typev1.GitRef {
	tag, isTag := strings.CutPrefix(text, tagMark)
	commit, isCommit := strings.CutPrefix(text, commitMark)
	switch {
	case text == "":
		return nil
	case strings.HasPrefix(text, "refs/"):
		return &typev1.GitRef{Selector: &typev1.GitRef_Name{Name: text}}
	case isTag:
		return &typev1.GitRef{Selector: &typev1.GitRef_Tag{Tag: tag}}
	case isCommit || commitID.MatchString(text):
		return &typev1.GitRef{Selector: &typev1.GitRef_Commit{Commit: commit}}
	default:
		return &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: text}}
	}
}
