// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"strings"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
)

// drift returns the drift of a service's objects, a field per line, or "" if nothing drifted.
func drift(style Style, objects []*distributorv1.ObjectDrift) string {
	if len(objects) == 0 {
		return ""
	}
	var rows [][]cell
	for _, object := range objects {
		name := plain(objectName(object.GetRef()))
		if len(object.GetFields()) == 0 {
			rows = append(rows, []cell{name, plain(""), plain(""), {"gone", red}, plain("")})
		}
		for _, field := range object.GetFields() {
			rows = append(rows, []cell{name, plain(field.GetPath()), line(field.GetOld()), line(field.GetNew()), plain(field.GetManager())})
		}
	}
	return "\n" + newRows(style, "DRIFTED OBJECT", "FIELD", "MANIFEST", "CLUSTER", "CHANGED BY").render(rows)
}

// line returns a value in one line.
func line(text string) cell {
	return plain(strings.Join(strings.Fields(text), " "))
}
