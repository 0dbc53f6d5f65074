// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// readmeFile is the name of a README in the tree, in archives and in charts.
const readmeFile = "README.md"

// mdLink matches the target of a link or of a picture of Markdown, without a title. The first group
// is the mark of a picture, and the second the text with its brackets.
var mdLink = regexp.MustCompile(`(!?)(\[[^\[\]]*\])\(([^()\s]+)\)`)

// abroad returns a README for somebody without a checkout: its links by a path lead to the repository,
// at the ref. folder is the README's, and beside lists the files that are packed with it.
func abroad(readme []byte, repository, ref, folder string, beside ...string) []byte {
	return mdLink.ReplaceAllFunc(readme, func(link []byte) []byte {
		parts := mdLink.FindSubmatch(link)
		mark, text, target := string(parts[1]), string(parts[2]), string(parts[3])
		if strings.HasPrefix(target, "#") || strings.Contains(target, ":") || slices.Contains(beside, target) {
			return link
		}
		view := "blob" // of a file, and a folder leads to its tree from there
		if mark != "" {
			view = "raw"
		}
		return []byte(mark + text + "(" + repository + "/" + view + "/" + ref + "/" + path.Join(folder, target) + ")")
	})
}
