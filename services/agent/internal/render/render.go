// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package render turns the files of a bundle into Kubernetes objects.
//
// It talks to nothing: no cluster, no network, no disk, no program. The same files give the same objects wherever it
// runs, in the agent and on a developer's machine alike.
package render

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Renderer is a way to make objects from a folder.
type Renderer int

// The renderers.
const (
	Auto      Renderer = iota // Kustomize when the folder holds a kustomization file, else Plain
	Plain                     // every .yaml, .yml and .json file below the folder
	Kustomize                 // kustomize build of the folder
)

// Error says which document of which file is no usable manifest. It is mended by changing the content, never by trying
// again.
type Error struct {
	// Path is the file or folder inside the bundle.
	Path string
	// Document is the position of the document in its file, from 1. Zero where the file as a whole is meant.
	Document int
	// Cause is what is wrong.
	Cause error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Document == 0 {
		return fmt.Sprintf("%s: %v", e.Path, e.Cause)
	}
	return fmt.Sprintf("%s: document %d: %v", e.Path, e.Document, e.Cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Objects renders the folder of files ("" or "." means all of them), with the variables of s put in; a nil s leaves texts as
// they are. The objects come in the order of the files, or in
// the order kustomize gives them; every one has apiVersion, kind and a name. An empty result is no error: whether a
// service may become empty is decided where objects are deleted. Errors are of type *Error; one about variables that are
// missing has a *VariableError in its chain.
func Objects(files *Files, folder string, renderer Renderer, s *Substitution) ([]*unstructured.Unstructured, error) {
	folder, err := files.folder(folder)
	if err != nil {
		return nil, err
	}
	if renderer == Kustomize || renderer == Auto && kustomization(files, folder) != "" {
		return kustomize(files, folder, s)
	}
	return plain(files, folder, parser{substitution: s, quotes: true})
}

func plain(files *Files, folder string, p parser) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, name := range files.manifests(folder) {
		objects, err := p.parse(name, files.content[name])
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// manifests lists the files of a folder that are read as manifests. A symbolic link to a file that is in the folder
// anyway is left out: its objects would come twice.
func (f *Files) manifests(folder string) []string {
	var names []string
	for name := range f.content {
		if !below(name, folder) || !isManifest(name) || f.except != "" && below(name, f.except) {
			continue
		}
		if target, linked := f.origin[name]; linked && below(target, folder) && isManifest(target) {
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
