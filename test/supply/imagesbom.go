// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"fmt"
	"io"
	"slices"
)

// ImageContent is the content of an image, for its inventory.
type ImageContent struct {
	// Name is the repository, such as registry.example.com/team/web.
	Name, Version string
	// Digest is the SHA-256 of the image's index, in hexadecimal digits.
	Digest string
	// Programs are the programs of its platforms, and Files the other files with content, which are
	// the same for all platforms.
	Programs []ImageProgram
	Files    []ImageFile
	// WebUI is the web UI that those of the programs embed which have the distributor.
	WebUI WebUI
}

// ImageProgram is a program in the image for one platform. File is its copy on this machine.
type ImageProgram struct{ Platform, Path, File string }

// ImageFile is a file in an image. File is its copy on this machine.
type ImageFile struct{ Path, File string }

// WriteImageSBOM writes the inventory of an image for several platforms, as CycloneDX 1.5 in JSON:
// its digest, the program for each platform with the modules in it and the packages of its web UI,
// and the other files. The same content gives the same document.
func WriteImageSBOM(w io.Writer, image ImageContent) error {
	about := component{
		Type: "container", Ref: "main", Name: image.Name, Version: image.Version,
		Hashes: []hash{{Algorithm: "SHA-256", Content: image.Digest}},
	}
	document := newBOM(about)
	var (
		parts     []component // what the image itself contains
		libraries []component // in programs
	)
	for _, p := range image.Programs {
		program, modules, settings, err := readProgram(p.File, p.Platform+p.Path, image.Version, image.WebUI)
		if err != nil {
			return err
		}
		program.Version = image.Version
		program.Properties = slices.Concat(program.Properties, []property{{"leat:path", p.Path}}, settings)
		parts = append(parts, program)
		libraries = append(libraries, modules...)
		document.Dependencies = append(document.Dependencies, dependsOn(program.Ref, modules))
	}
	for _, f := range image.Files {
		sum, err := sumOf(f.File)
		if err != nil {
			return fmt.Errorf("hash %s: %w", f.File, err)
		}
		parts = append(parts, component{Type: "file", Ref: f.Path, Name: f.Path, Hashes: []hash{{Algorithm: "SHA-256", Content: sum}}})
	}
	slices.SortStableFunc(libraries, byRef)
	libraries = slices.CompactFunc(libraries, func(a, b component) bool { return a.Ref == b.Ref })
	document.Components = slices.Concat(parts, libraries)
	document.Dependencies = slices.Insert(document.Dependencies, 0, dependsOn(about.Ref, parts))
	return document.write(w)
}
