// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"path"
	"slices"
)

// plain reads the manifests of a folder, except those in the folder except.
func plain(files *Files, folder, except string, p parser) ([]Object, error) {
	if err := files.checkLinks(folder, except); err != nil {
		return nil, err
	}
	p.warn = nil // what people write by hand is right, or refused
	var all []Object
	for _, name := range files.manifests(folder, except) {
		objects, err := p.parse(name, files.content[name])
		if err != nil {
			return nil, files.recognize(name, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}

// checkLinks returns an error about a link to nothing in a folder of plain manifests, if the link
// may stand for a manifest or a folder of them. Without the error its objects would be missing, and
// pruned. Links that are named like other files do not matter.
func (f *Files) checkLinks(folder, except string) error {
	for _, link := range slices.Sorted(maps.Keys(f.dangling)) {
		isOther := path.Ext(link) != "" && !isManifest(link)
		if isOther || !isBelow(link, folder) || except != "" && isBelow(link, except) {
			continue
		}
		return &Error{Path: link, Cause: fmt.Errorf("is a symbolic link to %s, which is not in the bundle; add that to the repository and the "+
			"source's selection, or leave the link out with the source's exclude", f.dangling[link])}
	}
	return nil
}

// manifests lists the files of a folder that are read as manifests. It omits a symbolic link to a
// file in the same folder: its objects would appear twice.
func (f *Files) manifests(folder, except string) []string {
	var names []string
	for name := range f.content {
		if !isBelow(name, folder) || !isManifest(name) || path.Base(name) == SchemaFile || except != "" && isBelow(name, except) {
			continue
		}
		if target, linked := f.origin[name]; linked && isBelow(target, folder) && isManifest(target) {
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
