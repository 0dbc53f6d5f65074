// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// FuzzUID checks that uids give their texts back, and are equal if these are.
func FuzzUID(f *testing.F) {
	id := catalog.DerivedUID("global", "cluster")
	for _, text := range []string{
		"", "a", id, strings.ToUpper(id), "{" + id + "}", "urn:uuid:" + id, strings.ReplaceAll(id, "-", ""), uuid.Nil.String(),
		id[:35] + "g", id[:35] + "F", strings.Replace(id, "-", "0", 1),
	} {
		f.Add(text, id)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if got := catalog.UIDOf(a).String(); got != a {
			t.Errorf("%q: got %q", a, got)
		}
		if got, err := catalog.UIDOf(a).AppendText([]byte("uid ")); err != nil || string(got) != "uid "+a {
			t.Errorf("%q: appended %q, %v", a, got, err)
		}
		if got := catalog.UIDOf(a) == catalog.UIDOf(b); got != (a == b) {
			t.Errorf("%q and %q: got that they are equal: %v", a, b, got)
		}
	})
}
