// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifest turns the sources of a service into the objects that it should consist of, and
// into its tests. It reads bundles and configurations, and changes nothing.
package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/reason"
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

// Configs gives access to configurations.
type Configs interface {
	// Config returns exactly the variables that the service's ConfigDigest identifies. Errors are
	// *reason.Problem (DependencyUnavailable) unless ctx ended.
	Config(ctx context.Context, s plan.Service) (render.Variables, error)
}

// Renderer turns the sources of services into objects. It is safe for concurrent use.
type Renderer struct {
	Bundles Bundles
	Configs Configs
	Engine  render.Engine
}

// Manifests are what a service should consist of. It belongs to its caller.
type Manifests struct {
	// Objects are the objects and hooks, in the order of the files.
	Objects []*unstructured.Unstructured
	// Origins say where objects and tests stand, for messages.
	Origins map[*unstructured.Unstructured]string
	// Tests run after everything is applied and healthy, in their order.
	Tests []Test
	// Substitution knows the texts that contain secrets of the configuration. Nil: there is no
	// configuration.
	Substitution *render.Substitution
	// Download is how long bundles and the configuration took to arrive.
	Download time.Duration
}

// IsConfidential reports whether the object contains a secret of the configuration.
func (m Manifests) IsConfidential(o *unstructured.Unstructured) bool {
	return m.Substitution.Tainted(o.Object)
}

// Render returns the manifests of all sources of s. What is applied already helps to download them.
// Errors are those of rendering and *reason.Problem.
func (r Renderer) Render(ctx context.Context, s plan.Service, applied inventory.Applied) (Manifests, error) {
	all := Manifests{Origins: map[*unstructured.Unstructured]string{}}
	if s.ConfigDigest != "" {
		started := time.Now()
		variables, err := r.Configs.Config(ctx, s)
		all.Download += time.Since(started)
		if err != nil {
			return all, err
		}
		all.Substitution = render.NewSubstitution(variables)
	}
	for i, b := range s.Bundles {
		files, took, err := r.read(ctx, b, baseOf(applied, i))
		all.Download += took
		if err != nil {
			return all, err
		}
		if i == 0 {
			if files, err = all.readTests(ctx, r.Engine, files, b, s); err != nil {
				return all, err
			}
		}
		objects, err := r.Engine.Objects(ctx, files, b.Subpath, s.Spec.Renderer, all.Substitution)
		if err != nil {
			return all, fmt.Errorf("read manifests of %s: %w", b.Origin(), err)
		}
		for _, o := range objects {
			all.Objects = append(all.Objects, all.place(o, b, len(s.Bundles) > 1))
		}
	}
	return all, all.separateTests()
}

// place records where an object stands. A service of several sources names the source, too.
func (m *Manifests) place(o render.Object, b plan.Bundle, hasSources bool) *unstructured.Unstructured {
	m.Origins[o.Unstructured] = o.Origin()
	if hasSources {
		m.Origins[o.Unstructured] += " of " + b.Origin()
	}
	return o.Unstructured
}

// read returns the files of a bundle, and how long the bundle took to arrive. It reads the bundle
// to its end, which is how the content is compared with the digest.
func (r Renderer) read(ctx context.Context, b plan.Bundle, base digest.Digest) (files *render.Files, took time.Duration, err error) {
	started := time.Now()
	content, err := r.Bundles.Open(ctx, b.Digest, base)
	took = time.Since(started)
	if err != nil {
		return nil, took, unavailable(ctx, b, err)
	}
	defer content.Close()
	files, err = render.Read(bundle.NewReader(content, bundle.Limits{}), r.Engine.Limits)
	if invalid, limit := new(render.Error), new(render.LimitError); errors.As(err, &invalid) || errors.As(err, &limit) {
		return nil, took, fmt.Errorf("read manifests of %s: %w", b.Origin(), err)
	}
	if err != nil {
		return nil, took, unavailable(ctx, b, err)
	}
	_, err = io.Copy(io.Discard, content)
	return files, took, err
}

// Verify reads the bundles of s to their end, which compares them with their digests. It replaces a
// whole run if the same objects would come from the same bundles, and each object is as it should
// be.
func (r Renderer) Verify(ctx context.Context, s plan.Service) error {
	for _, b := range s.Bundles {
		content, err := r.Bundles.Open(ctx, b.Digest, b.Digest)
		if err != nil {
			return unavailable(ctx, b, err)
		}
		_, err = io.Copy(io.Discard, content)
		if err = errors.Join(err, content.Close()); err != nil {
			return unavailable(ctx, b, err)
		}
	}
	return nil
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
	return reason.Errorf(reason.BundleUnavailable, "bundle %s of %s is not available, what was applied before stays: %v",
		b.Digest, b.Origin(), err)
}
