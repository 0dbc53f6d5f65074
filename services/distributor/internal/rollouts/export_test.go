// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

// Decisions about members, which the driver makes in each round.
var (
	Begin    = begin
	TakeOver = takeOver
)
