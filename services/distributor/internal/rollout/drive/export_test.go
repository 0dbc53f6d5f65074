// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive

import "github.com/leatdev/leat/services/distributor/internal/spine/catalog"

// Decisions about members, which the driver makes in each round.
var (
	Begin    = begin
	TakeOver = takeOver
)

// Announce has rounds ask which objects were announced.
func (w *Work) Announce(take func() (keys []catalog.Key, lagged bool)) { w.announced = take }
