// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

// SealedColumns returns the names of the columns that a rotation seals again.
func SealedColumns() (names []string) {
	for _, c := range sealedColumns {
		names = append(names, c.table+"."+c.column)
	}
	return names
}

// ObjectTables returns the names of the tables of objects.
func ObjectTables() []string { return objectTables }
