// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"path"
	"strings"
)

// maxDepth bounds the folders of a file that are compared with those of a repository.
const maxDepth = 64

// FoldersWith returns which folders of a repository hold files of the objects, in them or below, with one of the objects
// for each. It knows them by the files in which the objects were found, whose paths may begin anywhere above the
// repository; the root of a repository is not told from others. An object of the kind that delivers a folder would deliver
// these again.
func FoldersWith(objects []Object, folders []string) map[string]string {
	wanted, depths := map[string]bool{}, map[int]bool{}
	for _, folder := range folders {
		if folder != "" && strings.Count(folder, "/") < maxDepth {
			wanted["/"+folder], depths[strings.Count(folder, "/")] = true, true
		}
	}
	found, seen := map[string]string{}, map[string]bool{}
	for _, o := range objects {
		folder := "/" + path.Dir(o.Origin) + "/"
		if seen[folder] || strings.Count(folder, "/") > maxDepth {
			continue
		}
		seen[folder] = true
		var slashes []int
		for i := range len(folder) {
			if folder[i] == '/' {
				slashes = append(slashes, i)
			}
		}
		for first := range slashes {
			for depth := range depths {
				if last := first + depth + 1; last < len(slashes) && wanted[folder[slashes[first]:slashes[last]]] {
					if place := folder[slashes[first]+1 : slashes[last]]; found[place] == "" {
						found[place] = o.String()
					}
				}
			}
		}
	}
	return found
}
