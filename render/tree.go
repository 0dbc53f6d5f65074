// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"path"
	"slices"

	"github.com/leatdev/leat/internal/contract/renderstep"
)

// SourcePlace is where the content of a source lies, and where its manifests are in it.
type SourcePlace struct {
	// Mount is the folder of the tree that holds the content. Empty: the tree's root.
	Mount string
	// Folder is the folder of the manifests, inside the content. Empty: the content's root.
	Folder string
}

// Tree is one tree of files of a service, and the steps that render it.
type Tree struct {
	// First is the place of the tree's first source among the service's, and Count the number of its
	// sources, which follow each other.
	First, Count int
	// Folder is the folder of the first source's manifests; see [Input.Folder].
	Folder string
	// Steps are carried out on the tree. There is at least one.
	Steps []renderstep.Step
}

// Trees returns the trees of a service. If there are steps, or if a source has a mount, all sources
// make one tree. Otherwise each is a tree of its own, whose one step has the given renderer.
func Trees(sources []SourcePlace, renderer renderstep.Renderer, steps []renderstep.Step) []Tree {
	isOne := len(steps) > 0 || slices.ContainsFunc(sources, func(s SourcePlace) bool { return s.Mount != "" })
	if len(steps) == 0 {
		steps = []renderstep.Step{{Renderer: renderer}}
	}
	var trees []Tree
	for i, source := range sources {
		tree := Tree{First: i, Count: 1, Folder: path.Join(source.Mount, source.Folder), Steps: steps}
		if isOne {
			tree.Count = len(sources)
			return []Tree{tree}
		}
		trees = append(trees, tree)
	}
	return trees
}

// Tests returns the input that renders the folder of the service's tests, which is in.Except. It
// returns false if the service has no such folder.
func (in Input) Tests() (Input, bool) {
	if in.Except == "" {
		return Input{}, false
	}
	in.Folder, in.Except, in.Steps = in.Except, "", []renderstep.Step{{}}
	return in, true
}
