// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package demo holds the content of the demo repository, a copy of the repository's examples/demo,
// because go:embed does not reach into another folder's tree.
package demo

import (
	"embed"
	"io/fs"
)

//go:embed files
var files embed.FS

// Path is the folder of the manifests in the repository.
const Path = "deploy"

// Files is the content of the repository.
func Files() (fs.FS, error) { return fs.Sub(files, "files") }
