// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package supply

// Misfit returns why a version of a program does not fit, or "".
func Misfit(file, version string) string { return prober{}.misfitVersion(file, version) }
