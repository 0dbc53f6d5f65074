// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

// CheckReferences is what stands between a kustomization and kustomize.
func CheckReferences(files *Files, folder string) error { return checkReferences(files, folder) }
