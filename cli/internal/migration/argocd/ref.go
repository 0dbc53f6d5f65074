// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package argocd

import (
	"regexp"
	"strings"

	"github.com/leatdev/leat/cli/internal/migration"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

var (
	// exactVersion is a whole semantic version, as a tag.
	exactVersion = regexp.MustCompile(`^v?\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$`)
	// shortVersion is a tag of a version without all of its numbers.
	shortVersion = regexp.MustCompile(`^v\d+(\.\d+)?$`)
	commit       = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)
	shortCommit  = regexp.MustCompile(`^[0-9a-f]{7,39}$`)
	versionRange = regexp.MustCompile(`^[\^~<>=!*xX0-9][\w\s.,|<>=!^~*+-]*$`)
)

// versionRef returns the version of a chart. Without one, the highest is taken.
func versionRef(revision string) *typev1.GitRef {
	revision = strings.TrimSpace(revision)
	switch {
	case revision == "", revision == "*", revision == "HEAD":
		return nil
	case strings.HasPrefix(revision, "sha256:"):
		return &typev1.GitRef{Selector: &typev1.GitRef_Commit{Commit: strings.TrimPrefix(revision, "sha256:")}}
	case exactVersion.MatchString(revision) || !versionRange.MatchString(revision):
		return &typev1.GitRef{Selector: &typev1.GitRef_Tag{Tag: revision}}
	default:
		return &typev1.GitRef{Selector: &typev1.GitRef_Semver{Semver: revision}}
	}
}

// gitRef returns what a revision means in Git, where Argo CD takes a branch or a tag by the same word.
func gitRef(fields *migration.Fields, revision string) *typev1.GitRef {
	revision = strings.TrimSpace(revision)
	switch {
	case revision == "", revision == "HEAD":
		return nil
	case strings.HasPrefix(revision, "refs/"):
		return &typev1.GitRef{Selector: &typev1.GitRef_Name{Name: revision}}
	case commit.MatchString(revision), shortCommit.MatchString(revision) && strings.ContainsAny(revision, "0123456789"):
		return &typev1.GitRef{Selector: &typev1.GitRef_Commit{Commit: revision}}
	case exactVersion.MatchString(revision), shortVersion.MatchString(revision):
		fields.Note("targetRevision", migration.Check, revision+" is taken for a tag; write ref.branch if it is a branch")
		return &typev1.GitRef{Selector: &typev1.GitRef_Tag{Tag: revision}}
	case versionRange.MatchString(revision) && strings.ContainsAny(revision, "*<>=^~xX") && strings.ContainsAny(revision, "*0123456789"):
		return &typev1.GitRef{Selector: &typev1.GitRef_Semver{Semver: revision}}
	default:
		return &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: revision}}
	}
}
