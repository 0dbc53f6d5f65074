// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// Bundles gives access to the content of sources.
type Bundles interface {
	// Open returns the canonical tar after its digest was verified. It downloads the tar if
	// necessary; base names content that probably resembles it. The zero digest: no such content is
	// known.
	Open(ctx context.Context, d, base digest.Digest) (io.ReadCloser, error)
}

// tree is one tree of files, and the steps that render it.
type tree struct {
	first   int           // the place of its first bundle among the service's
	bundles []plan.Bundle // at their mounts
	folder  string        // of the first bundle's manifests
	steps   []renderstep.Step
	sources bool // the service has other trees
}

// origin names the tree for people.
func (t tree) origin() string {
	if len(t.bundles) == 1 {
		return t.bundles[0].Origin()
	}
	return "the service's sources"
}

// trees returns the trees of a service.
func trees(s plan.Service) []tree {
	var places []render.SourcePlace
	for _, b := range s.Bundles {
		places = append(places, render.SourcePlace{Mount: b.Mount, Folder: b.Subpath})
	}
	var all []tree
	found := render.Trees(places, renderstep.Renderer(s.Spec.Renderer), s.Spec.Render)
	for _, t := range found {
		all = append(all, tree{
			first: t.First, bundles: s.Bundles[t.First : t.First+t.Count], folder: t.Folder, steps: t.Steps, sources: len(found) > 1,
		})
	}
	return all
}

// readTree returns the files of a tree within the limits, and how long its bundles took to arrive.
func readTree(
	ctx context.Context, bundles Bundles, limits render.Limits, t tree, applied inventory.Applied,
) (files *render.Files, took time.Duration, err error) {
	left := limits.WithDefaults()
	var sources []render.Mounted
	for i, b := range t.bundles {
		files, arrival, err := readBundle(ctx, bundles, b, baseOf(applied, t.first+i), left)
		took += arrival
		if err != nil {
			return nil, took, err
		}
		left.Bytes = max(left.Bytes-files.Size(), 1) // zero is the default
		sources = append(sources, render.Mounted{Files: files, Mount: b.Mount, Origin: b.Origin()})
	}
	if len(sources) == 1 && sources[0].Mount == "" {
		return sources[0].Files, took, nil
	}
	if files, err = render.Mount(sources, limits); err != nil {
		return nil, took, fmt.Errorf("put the sources together: %w", err)
	}
	return files, took, nil
}

// readBundle returns the files of a bundle, and how long the bundle took to arrive. It reads the bundle
// to its end, which is how the content is compared with the digest.
func readBundle(
	ctx context.Context, bundles Bundles, b plan.Bundle, base digest.Digest, limits render.Limits,
) (files *render.Files, took time.Duration, err error) {
	started := time.Now()
	content, err := bundles.Open(ctx, b.Digest, base)
	took = time.Since(started)
	if err != nil {
		return nil, took, unavailable(ctx, b, err)
	}
	defer content.Close()
	files, err = render.Read(bundle.NewReader(content, bundle.Limits{}), limits)
	if invalid, limit := new(render.Error), new(render.LimitError); errors.As(err, &invalid) || errors.As(err, &limit) {
		return nil, took, fmt.Errorf("read manifests of %s: %w", b.Origin(), err)
	}
	if err != nil {
		return nil, took, unavailable(ctx, b, err)
	}
	_, err = io.Copy(io.Discard, content)
	return files, took, err
}

// baseOf returns the digest that was last applied from the source at that place, or the zero
// digest: the next content probably differs little from it.
func baseOf(applied inventory.Applied, source int) digest.Digest {
	if source >= len(applied.Digests) {
		return digest.Digest{}
	}
	base, err := digest.Parse(applied.Digests[source])
	if err != nil {
		return digest.Digest{}
	}
	return base
}

func unavailable(ctx context.Context, b plan.Bundle, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("fetch bundle: %w", context.Cause(ctx))
	}
	problem := reason.Errorf(reason.BundleUnavailable, "bundle %s of %s is not available, what was applied before stays: %v",
		b.Digest, b.Origin(), err)
	if errors.Is(err, ErrUnanswered) {
		return Unanswered(problem, err)
	}
	return problem
}
