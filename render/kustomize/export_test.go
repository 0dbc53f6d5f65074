// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/leatdev/leat/render"
)

// CheckReferences runs the check that content must pass before kustomize sees it.
func CheckReferences(files *render.Files, folder string) error { return checkReferences(files, folder) }

// FileSystem returns what kustomize sees of files.
func FileSystem(files *render.Files) filesys.FileSystem { return newFileSystem(files) }
