// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"testing"
)

// TestKindsDescribeThemselves asks each kind what others read of it.
func TestKindsDescribeThemselves(t *testing.T) {
	t.Parallel()
	resources := map[string]Kind{}
	for _, kind := range Kinds() {
		switch other, isTwice := resources[ResourceOf(kind)]; {
		case ResourceOf(kind) == "":
			t.Errorf("%s: permissions have no name for its objects", kind)
		case isTwice:
			t.Errorf("%s: permissions call its objects what they call those of %s", kind, other)
		}
		resources[ResourceOf(kind)] = kind
		table, empty, isPlain := PlainTable(kind)
		if isPlain && (table == "" || empty().Key().Kind != kind || empty() == empty()) {
			t.Errorf("%s: its table is %q, and its objects are %T", kind, table, empty())
		}
		if isPlain && len(empty().secrets()) > 0 {
			t.Errorf("%s: a plain kind has a secret, which its table would not seal", kind)
		}
	}
	if Kind("Nothing").InProject() || ResourceOf("Nothing") != "" || ResourceOf(KindToken) == "" {
		t.Error("what is not a kind of objects has a project or a resource, or tokens have none")
	}
}
