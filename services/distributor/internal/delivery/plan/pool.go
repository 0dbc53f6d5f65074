// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// minPool is how many values a pool holds before it is worth looking which of them are still used.
const minPool = 4096

// Pool lets plans share their equal parts: clusters that run the same things differ in little but
// the names of their services. It is not safe for concurrent use.
type Pool struct {
	bundles map[Bundle][]Bundle
	// contents are the contents of plans.
	contents map[contentKey]*Content
	// computed are keyed by their inputs, for services that clusters have in common. The values behind
	// the pointers are never changed.
	computed map[inputKey]*Content
	// renewAt is how many values there are when unused ones are looked for.
	renewAt int
}

// contentKey is that by which contents are equal. Digest covers the spec, the configuration, and the digests of
// the bundles, but not where they were seen.
type contentKey struct {
	digest   string
	bundle   *Bundle // of a list in the pool
	options  *syncpolicy.Options
	limits   *syncpolicy.Limits
	requires string
}

// inputKey is all that the content of a service with one source is computed from.
type inputKey struct {
	source       *catalog.Source
	options      *syncpolicy.Options
	config       *catalog.Config
	configDigest string
	limits       *syncpolicy.Limits
	snapshot     *catalog.Snapshot
	isWithheld   bool
}

// NewPool returns an empty Pool.
func NewPool() *Pool {
	p := &Pool{}
	p.reset(0)
	return p
}

// of returns the content of an input, which is computed once for all clusters that have it in common. A nil
// pool computes it each time.
func (p *Pool) of(input Input) *Content {
	spec := &input.Service.Spec
	isOfCluster := input.Limits != nil && input.Limits.ClusterAnnotations != nil // limits that were made for this cluster
	if p == nil || isOfCluster || input.Service.Common == nil || len(spec.Sources) != 1 || len(input.Snapshots) != 1 {
		return contentOf(input)
	}
	key := inputKey{
		source: &spec.Sources[0], options: spec.Options, config: spec.Config, configDigest: input.Service.ConfigDigest,
		limits: input.Limits, snapshot: input.Snapshots[0], isWithheld: input.IsWithheld,
	}
	if known, ok := p.computed[key]; ok {
		return known
	}
	made := contentOf(input)
	p.computed[key] = made
	return made
}

// Share replaces values of a plan that no reader has seen yet by equal ones of plans that were
// shared before. Entries that the plan has in common with last, which may be nil, were shared with
// it and are left alone: readers may have them.
func (p *Pool) Share(next, last *Plan) {
	for _, entry := range next.Entries {
		if last != nil && last.find(entry.Name) == entry {
			continue
		}
		entry.Content = p.content(entry.Content)
	}
}

// Full reports whether the pool has grown so much that Renew is due.
func (p *Pool) Full() bool {
	return len(p.bundles)+len(p.contents)+len(p.computed) >= p.renewAt
}

// Renew forgets all values except the given plans'.
func (p *Pool) Renew(plans func(yield func(*Plan) bool)) {
	p.reset(len(p.contents))
	for used := range plans {
		for _, entry := range used.Entries {
			p.content(entry.Content)
		}
	}
	p.renewAt = max(minPool, 2*(len(p.bundles)+len(p.contents)))
}

func (p *Pool) reset(size int) {
	p.bundles, p.renewAt = map[Bundle][]Bundle{}, minPool
	p.contents, p.computed = make(map[contentKey]*Content, size/2), map[inputKey]*Content{}
}

// content returns an equal content of a plan that was shared before, or else the given one, whose list of
// bundles then is one of the pool. Readers may have the given one, so it is not changed.
func (p *Pool) content(c *Content) *Content {
	if len(c.Bundles) > 1 {
		return c
	}
	key := contentKey{digest: c.Digest, options: c.Options, limits: c.Limits, requires: strings.Join(c.Requires, " ")}
	bundles := p.list(c.Bundles)
	if len(bundles) == 1 {
		key.bundle = &bundles[0]
	}
	if known, ok := p.contents[key]; ok {
		return known
	}
	if key.bundle != nil && key.bundle != &c.Bundles[0] {
		next := *c
		next.Bundles = bundles
		c = &next
	}
	p.contents[key] = c
	return c
}

// list returns an equal list of one bundle, which nearly all are. Longer ones are returned as they
// are.
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

func contentOf(input Input) *Content {
	service := input.Service
	content := &Content{
		ConfigDigest: service.ConfigDigest,
		Bundles:      bundlesOf(service.Spec.Sources, input.Snapshots),
		Options:      service.Spec.Options,
		Limits:       input.Limits,
		Requires:     service.Spec.Requires(),
	}
	if input.IsWithheld {
		content.Bundles = nil
	}
	content.SpecDigest = specDigest(content.Apply(), service.Spec.Sources)
	content.Digest = content.digest()
	return content
}

func bundlesOf(sources []catalog.Source, snapshots []*catalog.Snapshot) []Bundle {
	if len(snapshots) != len(sources) || slices.Contains(snapshots, nil) {
		return nil
	}
	bundles := make([]Bundle, len(sources))
	for i, source := range sources {
		bundles[i] = Bundle{
			Digest:  snapshots[i].Digest,
			Commit:  snapshots[i].Commit,
			Version: snapshots[i].Version,
			Source:  source.Normal(),
			Subpath: source.Subpath(),
			Mount:   source.Mount,
		}
	}
	return bundles
}
