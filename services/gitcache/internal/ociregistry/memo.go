// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/attestation"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// maxMemo bounds the memo of a repository with the most tags that are taken.
const maxMemo = 16 << 20

// memo holds the notes between fetches. It is a value.
type memo struct {
	Pins map[string]pin `json:"pins"` // by full name of the ref
	// Signatures is the state of the signatures; empty where none are required.
	Signatures attestation.Ledger `json:"signatures,omitzero"`
}

// pin is the state of a tag that was looked up.
type pin struct {
	// Digest is the first content of the tag; an immutable repository still delivers that.
	Digest string `json:"digest"`
	// At is when the tag was last looked up for a caller. Zero: its time is over.
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

// settle decides the targets of the tags of a registry. names are the full names of all tags,
// looked are the digests of the tags that were looked up, and kept are the refs of unchanged tags.
// All others are not pinned. It returns the refs, and the new memo.
//
// A tag whose digest is not the one noted first moved: an immutable repository holds it back. A
// digest that was refused for its signature was never delivered, and so it was not the first.
func (m memo) settle(names []string, looked map[string]string, kept map[string]mirror.Ref, isImmutable bool) (mirror.Refs, memo) {
	refs := make([]mirror.Ref, 0, len(names))
	next := memo{Pins: maps.Clone(m.Pins), Signatures: m.Signatures}
	listed := make(map[string]bool, len(names))
	for _, name := range names {
		listed[name] = true
		if ref, isKept := kept[name]; isKept {
			refs = append(refs, ref)
			continue
		}
		ref := mirror.Ref{Name: name, Object: looked[name], Commit: looked[name]}
		p, isKnown := m.Pins[name]
		switch {
		case ref.Object == "":
		case isKnown && isImmutable && p.Digest != ref.Object && !m.isRefused(p.Digest):
			ref.Held = mirror.Republished
			ref.GoodObject, ref.GoodCommit = p.Digest, p.Digest
		case isKnown:
			p.Digest = ref.Object
			next.Pins[name] = p
		}
		refs = append(refs, ref)
	}
	// A tag that vanished may come back with other content, which immutable repositories hold back.
	maps.DeleteFunc(next.Pins, func(name string, p pin) bool {
		return (!isImmutable || strings.HasPrefix(name, mirror.DigestPrefix)) && (!listed[name] || p.At.IsZero())
	})
	return mirror.NewRefs(refs), next
}

// isRefused reports whether the signature of a digest was found to be missing or bad.
func (m memo) isRefused(digest string) bool {
	v, isKnown := m.Signatures.Verdicts[digest]
	return isKnown && !v.IsGood()
}

// expire ends the time of pins that were not asked for since long, and returns the names of the
// others, rising.
func (m memo) expire(refs mirror.Refs, now time.Time) (memo, []string) {
	next := memo{Pins: maps.Clone(m.Pins), Signatures: m.Signatures}
	var names []string
	for _, ref := range refs {
		if ref.Object == "" {
			continue
		}
		p, isKnown := next.Pins[ref.Name]
		if !isKnown { // the mirror was copied without its memo
			p = pin{Digest: cmp.Or(ref.Delivered(), ref.Commit), At: now}
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
	next := memo{Pins: maps.Clone(m.Pins), Signatures: m.Signatures}
	p, isKnown := next.Pins[name]
	if !isKnown {
		p.Digest = digest
	}
	p.At = now
	next.Pins[name] = p
	return next
}

// ledger returns the state of signatures, with the refs that polls check.
func (m memo) ledger() attestation.Ledger {
	l := m.Signatures
	l.Wanted = make(map[string]time.Time, len(m.Pins))
	for name, p := range m.Pins {
		if !p.At.IsZero() {
			l.Wanted[name] = p.At
		}
	}
	return l
}

// verify returns the refs with what each delivers, and notes what the judge has found out. Without a
// policy it does nothing.
func (m memo) verify(ctx context.Context, judge *attestation.Judge, refs mirror.Refs) (mirror.Refs, memo, error) {
	if !judge.Policy.IsRequired() {
		m.Signatures = attestation.Ledger{}
		return refs, m, nil
	}
	settled, err := judge.Settle(ctx, refs)
	if err != nil {
		return nil, memo{}, err
	}
	m.Signatures = judge.Ledger
	m.Signatures.Wanted = nil // pins mean that
	return settled, m, nil
}

// maxDigests bounds the digests that callers name without a tag, and that polls ask about.
const maxDigests = 1000

// makeRoom forgets the pins of digests that were named longest ago, so that those among names have
// room.
func (m memo) makeRoom(names []string) memo {
	isDigest := func(name string) bool { return strings.HasPrefix(name, mirror.DigestPrefix) }
	var pinned []string
	for name := range m.Pins {
		if isDigest(name) && !slices.Contains(names, name) {
			pinned = append(pinned, name)
		}
	}
	coming := 0
	for _, name := range names {
		if isDigest(name) {
			coming++
		}
	}
	excess := len(pinned) + coming - maxDigests
	if excess <= 0 {
		return m
	}
	slices.SortFunc(pinned, func(a, b string) int {
		return cmp.Or(m.Pins[a].At.Compare(m.Pins[b].At), strings.Compare(a, b))
	})
	next := memo{Pins: maps.Clone(m.Pins), Signatures: m.Signatures}
	for _, name := range pinned[:min(excess, len(pinned))] {
		delete(next.Pins, name)
	}
	return next
}

// isForgotten reports whether a ref belongs to a digest without a pin.
func (m memo) isForgotten(name string) bool {
	_, isPinned := m.Pins[name]
	return !isPinned && strings.HasPrefix(name, mirror.DigestPrefix)
}
