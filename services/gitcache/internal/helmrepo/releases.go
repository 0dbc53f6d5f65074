// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helmrepo

import (
	"net/url"

	"github.com/leatdev/leat/services/gitcache/internal/chartindex"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// release is one version of a chart.
type release struct {
	ref string // full name
	id  string // its digest, or its text in the index if it has none
	// hasDigest: id is the SHA-256 of the archive.
	hasDigest bool
	url       string // as the index has it
}

// listReleases returns the versions that an index lists. Relative URLs are below base.
func listReleases(base *url.URL, x *chartindex.Index) []release {
	if x == nil {
		return nil
	}
	var all []release
	for _, chart := range x.Charts {
		prefix := mirror.ChartPrefix(chart.Name)
		for _, v := range chart.Versions {
			r := release{ref: prefix + v.Version, id: v.Digest, hasDigest: v.Digest != "", url: v.URL}
			if !r.hasDigest {
				r.id = v.ID(r.address(base))
			}
			all = append(all, r)
		}
	}
	return all
}

// address returns the absolute form of the release's URL.
func (r release) address(base *url.URL) string {
	u, err := base.Parse(r.url)
	if err != nil {
		return r.url // package chartindex has parsed it before
	}
	return u.String()
}

// notes are the digests of archives that the index has no digest of, by their ids.
type notes map[string]string

// keep returns the notes of releases that are still listed.
func (n notes) keep(releases []release) notes {
	kept := notes{}
	for _, r := range releases {
		if digest, ok := n[r.id]; ok {
			kept[r.id] = digest
		}
	}
	return kept
}

// maxWithdrawn bounds the versions that an immutable repository remembers without listing them.
const maxWithdrawn = 10_000

// withdrawn are versions of an immutable repository that were delivered, and are held back now or
// listed no more: full name → the id that was delivered. Otherwise a version could change by being
// taken back for the time of one poll.
type withdrawn map[string]string

// decision holds the inputs for decisions about refs.
type decision struct {
	have        mirror.Refs
	isImmutable bool
	notes       notes
	withdrawn   withdrawn
	holds       func(id string) bool // whether the mirror has the artifact
}

// decide returns the refs of releases, with what each delivers, and the notes to keep about others.
// An immutable repository still delivers the first content of a version. A withdrawn version that
// was never fetched is dropped: it was not delivered, and it is no longer available.
func (d decision) decide(releases []release) (mirror.Refs, withdrawn) {
	refs := make([]mirror.Ref, 0, len(releases))
	for _, r := range releases {
		refs = append(refs, mirror.Ref{Name: r.ref, Object: r.id, Commit: r.id})
	}
	listed := mirror.NewRefs(refs)
	if !d.isImmutable {
		return listed, nil
	}
	remembered := withdrawn{}
	for i, ref := range listed {
		first := d.firstOf(ref.Name)
		if first == "" || d.isSame(first, ref.Object) {
			continue
		}
		listed[i].Held = mirror.Republished
		remembered.add(ref.Name, first)
		if d.holds(first) {
			listed[i].GoodObject, listed[i].GoodCommit = first, first
		}
	}
	for name := range d.withdrawn {
		if _, isListed := listed.Get(name); !isListed {
			remembered.add(name, d.withdrawn[name])
		}
	}
	for _, before := range d.have {
		if _, isListed := listed.Get(before.Name); !isListed && d.firstOf(before.Name) != "" {
			remembered.add(before.Name, d.firstOf(before.Name))
		}
	}
	return listed, remembered
}

// firstOf returns the id that a version was delivered with, or "" where it never was.
func (d decision) firstOf(name string) string {
	if before, ok := d.have.Get(name); ok {
		good := before.Delivered()
		if good == "" && before.Held == mirror.NotVerified { // as it was before the verification was changed
			good = before.Commit
		}
		if good != "" && d.holds(good) {
			return good
		}
	}
	return d.withdrawn[name]
}

// isSame reports whether two ids name the same archive, as far as that is known.
func (d decision) isSame(a, b string) bool {
	return a == b || d.notes[a] == b || d.notes[b] == a
}

func (w withdrawn) add(name, id string) {
	if len(w) < maxWithdrawn {
		w[name] = id
	}
}
