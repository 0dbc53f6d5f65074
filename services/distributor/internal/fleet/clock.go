// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import "time"

// now returns the time with the precision of the store.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
