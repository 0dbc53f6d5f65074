// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
	"github.com/leatdev/leat/services/gitcache/internal/selection"
)

// Artifacts are the found artifacts of needs, by [chartdep.Need.Key].
type Artifacts map[chartdep.Need]chartdep.Artifact

// Dependencies are the content that the bundle of a selection holds beside the content that its
// outline covers.
type Dependencies struct {
	folders []string        // of the repository that is bundled; rising
	needs   []chartdep.Need // each once, with a file that names it
}

// Weight returns about how many bytes the dependencies take in memory.
func (d Dependencies) Weight() int {
	sum := 0
	for _, folder := range d.folders {
		sum += len(folder)
	}
	for _, n := range d.needs {
		sum += len(n.File) + len(n.Name) + len(n.Version) + len(n.Repository) // the rest is shared
	}
	return sum
}

// IsEmpty reports whether nothing was packed.
func (d Dependencies) IsEmpty() bool { return len(d.folders) == 0 && len(d.needs) == 0 }

// key names a selection together with what its charts depend on: the outline, the trees of the
// folders, and the artifacts that the needs are. A version that was published again therefore
// makes another bundle of the same commit, on every replica that has heard of it.
func (d Dependencies) key(outline string, trees map[string]string, found Artifacts) string {
	h := selection.NewHash("completed")
	h.Add(outline)
	for _, folder := range d.folders {
		h.Add("folder", folder, trees[folder])
	}
	for _, n := range d.needs {
		a := found[n.Key()]
		h.Add("chart", n.Name, n.Version, n.Repository, a.UID, a.ID)
	}
	return h.Sum()
}
