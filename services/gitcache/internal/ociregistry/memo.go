// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// maxMemo bounds the memo of a repository with the most tags that are taken.
const maxMemo = 16 << 20

// memo is what is noted between fetches. It is a value.
type memo struct {
	Pins map[string]pin `json:"pins"` // by full name of the ref
}

// pin is what is known of a tag that was looked up.
type pin struct {
	// Digest is what the tag delivered first; an immutable repository goes on delivering that.
	Digest string `json:"digest"`
	// At is when the tag was last looked up for somebody. Zero: its time is over.
	At time.Time `json:"at,omitzero"`
}

// readMemo reads what was noted with a mirror. Without a memo nothing was.
func readMemo(mirrors artifact.Mirrors, uid string) (memo, error) {
	m := memo{Pins: map[string]pin{}}
	r, err := mirrors.Memo(uid)
	if errors.Is(err, artifact.ErrNoMemo) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	err = json.NewDecoder(io.LimitReader(r, maxMemo)).Decode(&m)
	if err = errors.Join(err, r.Close()); err != nil {
		return memo{}, fmt.Errorf("read memo: %w", err)
	}
	return m, nil
}

func (m memo) write(w io.Writer) error { return json.NewEncoder(w).Encode(m) }

// settle decides what the tags of a registry deliver. names are the full names of all tags, looked
// are the digests of those that were looked at. It returns the refs, and what is to be noted.
//
// A tag whose digest is not the one noted first moved: an immutable repository holds it back.
func (m memo) settle(names []string, looked map[string]string, isImmutable bool) (mirror.Refs, memo) {
	refs := make([]mirror.Ref, 0, len(names))
	next := memo{Pins: maps.Clone(m.Pins)}
	listed := make(map[string]bool, len(names))
	for _, name := range names {
		listed[name] = true
		ref := mirror.Ref{Name: name, Object: looked[name], Commit: looked[name]}
		p, isKnown := m.Pins[name]
		switch {
		case ref.Object == "":
		case isKnown && isImmutable && p.Digest != ref.Object:
			ref.Held = "was published again with other content, while the repository is immutable"
			ref.GoodObject, ref.GoodCommit = p.Digest, p.Digest
		case isKnown:
			p.Digest = ref.Object
			next.Pins[name] = p
		}
		refs = append(refs, ref)
	}
	// A tag that vanished may come back with other content, which immutable repositories hold back.
	maps.DeleteFunc(next.Pins, func(name string, p pin) bool {
		return !isImmutable && (!listed[name] || p.At.IsZero())
	})
	return mirror.NewRefs(refs), next
}

// expire ends the time of pins that nobody asked for since long, and returns the names of those that
// are looked at.
func (m memo) expire(refs mirror.Refs, now time.Time) (memo, []string) {
	next := memo{Pins: maps.Clone(m.Pins)}
	var names []string
	for _, ref := range refs {
		if ref.Object == "" {
			continue
		}
		p, isKnown := next.Pins[ref.Name]
		if !isKnown { // the mirror was copied without its memo
			p = pin{Digest: ref.Delivered(), At: now}
		}
		if now.Sub(p.At) > PinnedFor {
			p.At = time.Time{}
		} else {
			names = append(names, ref.Name)
		}
		next.Pins[ref.Name] = p
	}
	return next, names
}

// pinned notes that a tag leads to a digest, and was asked for now.
func (m memo) pinned(name, digest string, now time.Time) memo {
	next := memo{Pins: maps.Clone(m.Pins)}
	p, isKnown := next.Pins[name]
	if !isKnown {
		p.Digest = digest
	}
	p.At = now
	next.Pins[name] = p
	return next
}
