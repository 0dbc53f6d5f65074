// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"fmt"
	"math"
)

// These constants bound the cost of one pack. The upstream writes the pack, and a few kilobytes of
// deltas can expand to any number of gigabytes.
const (
	// maxChain is the most deltas in the chain that leads to an object. Git writes at most 4,095
	// ("pack.depth"), and 50 by default.
	maxChain = 4095
	// maxParsed bounds the bytes of a commit, a tree or a tag, which every reader holds in memory
	// as a whole. A tree of 800,000 files stays below it.
	maxParsed = 32 << 20
	// workBase and workPerByte bound the bytes that applying deltas may produce: workBase for any
	// pack, and workPerByte more for each byte of the pack. The largest ratios of honest packs come
	// from large folders in which each commit changes one file: a folder of 5,000 files produces
	// about 600 bytes of tree for each byte in the pack. A core produces workBase bytes in about 20
	// s.
	workBase    = 8 << 30
	workPerByte = 1000
)

// limits holds the bounds above. Tests set lower ones.
type limits struct {
	chain             uint16
	parsed            int64
	base, perByteWork int64
}

var defaultLimits = limits{chain: maxChain, parsed: maxParsed, base: workBase, perByteWork: workPerByte}

// work returns how many bytes the deltas of a pack of packBytes bytes may produce.
func (l limits) work(packBytes int64) int64 {
	if packBytes > (math.MaxInt64-l.base)/l.perByteWork {
		return math.MaxInt64
	}
	return l.base + l.perByteWork*packBytes
}

// LimitError reports a pack that exceeds a bound of [Receive]. The pack is well-formed as far as it
// was read. Fetching it again does not help unless the upstream packs its objects differently.
type LimitError struct {
	// What is the name of the bound, such as "deltas in a chain".
	What string
	// The pack needs at least Need of it, and may have Limit.
	Need, Limit int64
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("the pack needs %d %s, and may have %d", e.Need, e.What, e.Limit)
}

// checkChain rejects an object at the end of too long a chain of deltas: each reader of it would
// have to apply all of them.
func (l limits) checkChain(depth uint16) error {
	if depth > l.chain {
		return &LimitError{What: "deltas in a chain", Need: int64(depth), Limit: int64(l.chain)}
	}
	return nil
}

// checkParsed rejects a commit, a tree or a tag that readers could not hold in memory.
func (l limits) checkParsed(k kind, size int64) error {
	if k != kindBlob && size > l.parsed {
		return &LimitError{What: "bytes for one " + k.String(), Need: size, Limit: l.parsed}
	}
	return nil
}

// checkMade rejects a pack whose deltas produce too many bytes in total, before any delta is
// applied. It adds up the sizes that the deltas declare: a delta that produces another size is
// rejected later.
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
