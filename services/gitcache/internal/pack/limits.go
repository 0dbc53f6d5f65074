// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"fmt"
	"math"
)

// What one pack may cost. A pack is written by its upstream, and a few kilobytes of deltas describe any number of gigabytes.
const (
	// maxChain is how many deltas may lead to an object. Git writes at most 4,095 ("pack.depth"), and 50 unless told otherwise.
	maxChain = 4095
	// maxParsed bounds the bytes of a commit, a tree or a tag, which every reader holds in memory as a whole. A tree of
	// 800,000 files stays below it.
	maxParsed = 32 << 20
	// workBase and workPerByte bound the bytes that applying deltas makes: so many for any pack, and so many more for each byte
	// of the pack. The largest ratios of honest packs come from folders with many files of which one changes per commit: a
	// folder of 5,000 files makes some 600 bytes of tree for each byte in the pack. A core makes the base in about 20 s.
	workBase    = 8 << 30
	workPerByte = 1000
)

// limits are the bounds above; tests set lower ones.
type limits struct {
	chain             uint16
	parsed            int64
	base, perByteWork int64
}

var defaultLimits = limits{chain: maxChain, parsed: maxParsed, base: workBase, perByteWork: workPerByte}

// work returns how many bytes a pack of that size may have made.
func (l limits) work(packBytes int64) int64 {
	if packBytes > (math.MaxInt64-l.base)/l.perByteWork {
		return math.MaxInt64
	}
	return l.base + l.perByteWork*packBytes
}

// LimitError reports a pack that is well-formed as far as it was read, but costs more than [Receive] spends on one. Fetching
// the pack again does not help unless the upstream packs its objects otherwise.
type LimitError struct {
	// What names the bound, such as "deltas in a chain".
	What string
	// Need is at least how much the pack needs of it, Limit how much it may have.
	Need, Limit int64
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("the pack needs %d %s, and may have %d", e.Need, e.What, e.Limit)
}

func (l limits) checkChain(depth uint16) error {
	if depth > l.chain {
		return &LimitError{What: "deltas in a chain", Need: int64(depth), Limit: int64(l.chain)}
	}
	return nil
}

func (l limits) checkParsed(k kind, size int64) error {
	if k != kindBlob && size > l.parsed {
		return &LimitError{What: "bytes for one " + k.String(), Need: size, Limit: l.parsed}
	}
	return nil
}

// checkMade refuses packs whose deltas make too much in sum, before any is applied: what a delta says it makes is what it has
// to make.
func (l limits) checkMade(r *records, packBytes int64) error {
	made, limit := int64(0), l.work(packBytes)
	for i := range r.n {
		rec := r.at(i)
		if !rec.kind.isDelta() {
			continue
		}
		if rec.size > limit-made {
			return &LimitError{What: workUnit, Need: limit + 1, Limit: limit}
		}
		made += rec.size
	}
	return nil
}

const workUnit = "bytes made of deltas"
