// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

// CheckReferences runs the check that content must pass before kustomize sees it.
func CheckReferences(files *Files, folder string) error { return checkReferences(files, folder) }
