// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// memory makes go-git's form of an object.
func memory(kind plumbing.ObjectType, data []byte) *plumbing.MemoryObject {
	o := &plumbing.MemoryObject{}
	o.SetType(kind)
	_, _ = o.Write(data) // to memory
	return o
}

// FuzzSecTreeLikeGoGit reads any bytes as a tree: either they are malformed, or the entries equal
// go-git's.
func FuzzSecTreeLikeGoGit(f *testing.F) {
	id := strings.Repeat("1", 40)
	for _, seed := range []string{
		"", treeLine("100644", "a", id), treeLine("40000", "a", id) + treeLine("160000", "b", id), treeLine("120000", "..", id) + "1",
		treeLine("100755", "a/b", id), treeLine("777777777777", "a", id), treeLine("0", "a", id), treeLine(" 100644", "a", id), " \x00", treeLine("100644", " ", id),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o := objects{}
		got, err := o.open().List(t.Context(), o.add("tree", string(data)))
		if err != nil {
			if !errors.Is(err, content.ErrMalformed) {
				t.Errorf("got %v, want ErrMalformed", err)
			}
			return
		}
		var want object.Tree
		if err := want.Decode(memory(plumbing.TreeObject, data)); err != nil {
			t.Fatalf("got %v, and go-git says %v", got, err)
		}
		if len(got) != len(want.Entries) {
			t.Fatalf("got %d entries, want %d", len(got), len(want.Entries))
		}
		for i, e := range want.Entries {
			if got[i].Name != e.Name || got[i].ID != e.Hash.String() {
				t.Errorf("got %+v, want %+v", got[i], e)
			}
		}
	})
}

// FuzzSecCommitLikeGoGit reads any bytes as a commit: either they are malformed, or tree and
// parents equal go-git's, and so do the authors and messages, unless headers are repeated or out of
// their order.
func FuzzSecCommitLikeGoGit(f *testing.F) {
	id := strings.Repeat("1", 40)
	whole := "tree " + id + "\nparent " + id + "\nparent " + strings.Repeat("2", 40) +
		"\nauthor A U Thor <a@example.invalid> 1700000000 +0130\ncommitter C <c@example.invalid> 1700000001 -0800\n" +
		"gpgsig -----BEGIN PGP SIGNATURE-----\n \n abc\n -----END PGP SIGNATURE-----\nencoding UTF-8\n\nsubject\n\nbody\n"
	for _, seed := range []string{
		"", whole, whole[:60], whole[:120], "tree " + id, "tree " + id + "\n", "tree " + id + "\n\n", "tree " + id + "\n\nx",
		strings.Replace(whole, "> 17", ">> 17", 1), strings.Replace(whole, "+0130", "+9999", 1), strings.Replace(whole, "parent", "tree", 1),
		strings.Replace(whole, "1700000000", "99999999999999999999", 1), strings.Replace(whole, "author", "parent "+id+"\nauthor", 1),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o := objects{}
		id := o.add("commit", string(data))
		r := o.open()
		got, err := r.Commit(t.Context(), id)
		if err != nil {
			if !errors.Is(err, content.ErrMalformed) {
				t.Errorf("got %v, want ErrMalformed", err)
			}
			return
		}
		want, err := object.DecodeCommit(nil, memory(plumbing.CommitObject, data))
		headers, message, _ := bytes.Cut(data, []byte("\n\n"))
		if err != nil || isOdd(headers) {
			return
		}
		var parents []string
		for _, p := range want.ParentHashes {
			parents = append(parents, p.String())
		}
		if !slices.Equal(got.Parents, parents) || got.Message != want.Message {
			t.Errorf("got parents %v and %q, want %v and %q of %q", got.Parents, got.Message, parents, want.Message, message)
		}
		if got.AuthorName != want.Author.Name || got.AuthorEmail != want.Author.Email {
			t.Errorf("got author %q %q, want %q %q", got.AuthorName, got.AuthorEmail, want.Author.Name, want.Author.Email)
		}
	})
}

// isOdd reports whether headers are repeated, out of their order, or made of bytes that no program
// writes: what they mean is anybody's guess, and go-git's is another one.
func isOdd(headers []byte) bool {
	known := []string{"tree ", "parent ", "author ", "committer ", "gpgsig ", "encoding "}
	at := 0
	for i, line := range strings.Split(string(headers), "\n") {
		if at == 4 && strings.HasPrefix(line, " ") {
			continue
		}
		place := slices.IndexFunc(known, func(prefix string) bool { return strings.HasPrefix(line, prefix) })
		if place < at || place == at && place != 1 && i > 0 || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
			return true
		}
		at = place
	}
	return at < 3
}
