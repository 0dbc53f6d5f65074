// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
	"github.com/leatdev/leat/services/gitcache/internal/selection"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

// Bundle is the bundle that is going to be, before its charts are completed.
type Bundle struct {
	UID       string // of the repository that is bundled
	Selection *selection.Selection
	// Repositories are the names of the repositories that charts may take dependencies from.
	Repositories upstream.List
	Leaves       []leaves.Leaf // rising by path
	Visits       int           // how many more entries of trees may be read
	// Found are the artifacts that this build knows. The build carries them from one try to the next,
	// so that one dependency is one artifact all the time. Fetching absent ones adds to them.
	Found Artifacts
}

// Completion is the packed content, or would have been without an error. The zero Completion has
// packed nothing.
type Completion struct {
	Added []leaves.Leaf
	trees map[string]string               // of folders of the repository that is bundled
	needs map[chartdep.Need]chartdep.Need // by key, with the first file that names it
	found Artifacts
}

// Dependencies returns what the bundle holds beside the content that is selected.
func (c Completion) Dependencies() Dependencies {
	return Dependencies{
		folders: slices.Sorted(maps.Keys(c.trees)),
		needs: slices.SortedFunc(maps.Values(c.needs), func(x, y chartdep.Need) int {
			return cmp.Or(
				strings.Compare(x.Name, y.Name), strings.Compare(x.Version, y.Version),
				strings.Compare(x.Repository, y.Repository),
			)
		}),
	}
}

// Key names the content of a selection, which outline names, together with what was packed.
func (c Completion) Key(outline string) string {
	return c.Dependencies().key(outline, c.trees, c.found)
}
