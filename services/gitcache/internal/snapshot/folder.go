// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"errors"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/selection"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

// ErrBundleNotFound means that a digest is neither stored nor what the named folder holds.
var ErrBundleNotFound = errors.New("bundle not found")

// EmptyError reports that ignore files and patterns leave nothing of a folder that is named. It
// matches [content.ErrPathNotFound].
type EmptyError struct{ Folder string }

// Error implements error.
func (e *EmptyError) Error() string { return fmt.Sprintf("nothing is selected of folder %q", e.Folder) }

// Is makes errors.Is(err, content.ErrPathNotFound) true.
func (e *EmptyError) Is(target error) bool { return target == content.ErrPathNotFound }

// Snapshot describes a selection's canonical bundle. Its JSON is part of an [Index].
type Snapshot struct {
	Digest      digest.Digest `json:"digest"`
	ContentSize int64         `json:"content"`
	StoredSize  int64         `json:"stored"`
	FileCount   int           `json:"files"`
}

// Folder names the selected part of a commit.
type Folder struct {
	UID string // the repository's
	// Commit is a commit's id or, of an artifact repository, the text of an artifact's id.
	Commit string
	// Repository and Epoch are its name and its owner's epoch, for traces alone.
	Repository string
	Epoch      uint64
	Selection  *selection.Selection
	// CompletesCharts packs the dependencies that charts lack (package charts). It is for Git
	// repositories: the archive of a chart brings its dependencies.
	CompletesCharts bool
	// ChartRepositories are the names of the repositories that charts may take dependencies from.
	ChartRepositories upstream.List
}

// chartRules names the rules by which charts are completed.
func (f Folder) chartRules() string {
	if !f.CompletesCharts {
		return ""
	}
	return "complete\n" + string(f.ChartRepositories)
}

// isPermanent reports whether the same content fails in the same way for ever.
func isPermanent(err error) bool {
	_, empty := errors.AsType[*EmptyError](err)
	return empty || errors.Is(err, leaves.ErrUnsupported) || errors.Is(err, bundle.ErrTooLarge)
}

// treeKey names content of one repository by a hash. Repositories do not share answers: SHA-1 is no
// longer strong enough to let one owner's objects speak for another's.
type treeKey struct{ uid, id string }

// newCache returns a cache of limit answers.
func newCache[K comparable, V any](limit int) *lru.Cache[K, V] {
	cache, _ := lru.New[K, V](limit) // fails only for a limit that is not positive
	return cache
}
