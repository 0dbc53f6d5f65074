// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// kind describes how objects of one kind are shown.
type kind struct {
	columns []string // titles
	// cells returns the row of an object below the titles. Ages are those at now.
	cells func(object *fleetv1.Document, now time.Time) []cell
	// detail returns the lines below the row of an object that is shown alone; nil if there are none.
	detail func(style Style, now time.Time, object *fleetv1.Document) string
}
