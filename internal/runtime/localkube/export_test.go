// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

// StageFiles returns the files of kwok's module that kwok-stages.yaml consists of.
func StageFiles() []string { return stageFiles() }
