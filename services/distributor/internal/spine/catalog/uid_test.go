// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"crypto/rand"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// FuzzUID checks that uids give their texts back, and are equal if these are.
func FuzzUID(f *testing.F) {
	id, random := catalog.DerivedUID("global", "cluster"), "222ZKUATG55YGL7N4FISKBAWYE"
	for _, text := range []string{
		"", "a", id, strings.ToUpper(id), "{" + id + "}", "urn:uuid:" + id, strings.ReplaceAll(id, "-", ""), uuid.Nil.String(),
		id[:35] + "g", id[:35] + "F", strings.Replace(id, "-", "0", 1),
		random, random[:25], random + "A", random[:25] + "1", "a" + random[1:], strings.Repeat("A", 26), strings.Repeat("7", 26),
	} {
		f.Add(text, id)
		f.Add(text, random)
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

// TestUIDsTakeNoMemoryOfTheirOwn checks that random uids, which the hub makes up, and UUIDs need nothing but the UID. Each
// is a new one: another text would allocate once.
func TestUIDsTakeNoMemoryOfTheirOwn(t *testing.T) {
	for kind, text := range map[string]func(i int) string{
		"random":  func(int) string { return rand.Text() },
		"derived": func(i int) string { return catalog.DerivedUID("global", strconv.Itoa(i)) },
	} {
		texts, next := make([]string, 1000), 0
		for i := range texts {
			texts[i] = text(i)
		}
		if n := testing.AllocsPerRun(len(texts)-1, func() { _, next = catalog.UIDOf(texts[next]), next+1 }); n != 0 {
			t.Errorf("%s: got %v allocations for each, want none", kind, n)
		}
	}
}

// BenchmarkUIDOf measures how long the uid of a text takes that the hub has made up.
func BenchmarkUIDOf(b *testing.B) {
	text := rand.Text()
	for b.Loop() {
		_ = catalog.UIDOf(text)
	}
}
