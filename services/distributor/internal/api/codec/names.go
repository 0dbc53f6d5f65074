// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"slices"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// parseNames returns the paths of references in documents of a project.
func parseNames(field string, references []string, project string) ([]string, error) {
	return parseEach(field, references, project, objectname.Parse)
}

// parseEach returns the paths of references, which parse reads.
func parseEach(field string, references []string, project string, parse func(field, reference, project string) (string, error)) ([]string, error) {
	paths := slices.Clone(references)
	for i, reference := range references {
		path, err := parse(fielderr.Indexed(field, i), reference, project)
		if err != nil {
			return nil, err
		}
		paths[i] = path
	}
	return paths, nil
}

// FormatNames is the reverse of parseNames.
func FormatNames(paths []string, project string) []string {
	references := slices.Clone(paths)
	for i, path := range paths {
		references[i] = objectname.Format(path, project)
	}
	return references
}
