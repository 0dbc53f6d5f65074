// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package casdisk

// forget does nothing, because these systems have no call to drop cached pages. A read may be
// served from memory.
func (f *file) forget() {}
