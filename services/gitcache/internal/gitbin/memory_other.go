// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package gitbin

// boundMemory does nothing: only Linux can limit the memory of another process.
func boundMemory(int, int64) error { return nil }
