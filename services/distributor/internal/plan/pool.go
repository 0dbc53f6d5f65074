// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package plan

// minPool is how many values a pool holds before it is worth looking which of them are still used.
const minPool = 4096

// Pool lets plans share what is equal in them: clusters that run the same things differ in little
// but the names of their services. It is not safe for concurrent use.
type Pool struct {
	texts   map[string]string
	bundles map[Bundle][]Bundle
	// renewAt is how many values there are when unused ones are looked for.
	renewAt int
}

// NewPool returns an empty Pool.
func NewPool() *Pool {
	p := &Pool{}
	p.reset(0)
	return p
}

// Share replaces values of a plan that no reader has seen yet by equal ones of plans that were
// shared before. Entries that the plan has in common with last, which may be nil, were shared with
// it and are left alone: readers may have them.
func (p *Pool) Share(next, last *Plan) {
	for _, entry := range next.Entries {
		if last != nil && last.find(entry.Name) == entry {
			continue
		}
		entry.SpecDigest = p.text(entry.SpecDigest)
		entry.Digest = p.text(entry.Digest)
		entry.Traceparent = p.text(entry.Traceparent)
		entry.Bundles = p.list(entry.Bundles)
	}
}

// Full reports whether the pool has grown so much that it may mainly hold values that no plan uses
// any more.
func (p *Pool) Full() bool { return len(p.texts)+len(p.bundles) >= p.renewAt }

// Renew makes the pool hold the values that these plans use, and no others.
func (p *Pool) Renew(plans func(yield func(*Plan) bool)) {
	p.reset(len(p.texts))
	for used := range plans {
		for _, entry := range used.Entries {
			p.text(entry.SpecDigest)
			p.text(entry.Digest)
			p.text(entry.Traceparent)
			p.list(entry.Bundles)
		}
	}
	p.renewAt = max(minPool, 2*(len(p.texts)+len(p.bundles)))
}

func (p *Pool) reset(size int) {
	p.texts, p.bundles, p.renewAt = make(map[string]string, size/2), map[Bundle][]Bundle{}, minPool
}

func (p *Pool) text(s string) string {
	if known, ok := p.texts[s]; ok {
		return known
	}
	p.texts[s] = s
	return s
}

// list shares lists of one bundle, which most entries have.
func (p *Pool) list(bundles []Bundle) []Bundle {
	if len(bundles) != 1 {
		return bundles
	}
	if known, ok := p.bundles[bundles[0]]; ok {
		return known
	}
	p.bundles[bundles[0]] = bundles
	return bundles
}
