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
	"maps"
	"path"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/renderstep"
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
	// Config returns exactly the configuration that the service's ConfigDigest identifies. Errors are
	// *reason.Problem (DependencyUnavailable) unless ctx ended.
	Config(ctx context.Context, s plan.Service) (Configuration, error)
}

// Cluster gives access to what is known of the cluster.
type Cluster interface {
	// ClusterFacts returns the facts that templates may ask for. It is called only for services
	// whose renderers take facts.
	ClusterFacts(ctx context.Context) (render.ClusterFacts, error)
	// FactsChanged returns a channel that is closed when they may have changed.
	FactsChanged() <-chan struct{}
}

// Renderer turns the sources of services into objects. It is safe for concurrent use.
type Renderer struct {
	Bundles Bundles
	Configs Configs
	Cluster Cluster
	// Readers read what templates look up, what configurations refer to, and keys.
	Readers Readers
	// Generated keeps what templates generate.
	Generated *Generated
	// Given keeps what the cluster gave services. Nil keeps nothing.
	Given GivenStore
	// IsTrial leaves unsaved what templates generate: nothing is applied.
	IsTrial bool
	// Engine renders. Its limits also bound what is read of bundles.
	Engine render.Split
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
	// Warnings are for the service's owner.
	Warnings []string
	// AsksFacts reports that the same sources may make other objects: templates look at facts of the
	// cluster, or have made certificates, which end.
	AsksFacts bool
	// HasGenerated reports that templates have generated values, which are kept for the service.
	HasGenerated bool
	// Reads are the objects of the cluster that were read for the configuration and for encrypted
	// manifests: if one changes, the same sources make other objects.
	Reads Reads
	// Notice is a problem with which manifests are applied anyway. Nil: no such problem.
	Notice *reason.Problem
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
	var variables *render.Variables
	var configured Configuration
	given := r.newGiven(s)
	if s.ConfigDigest != "" {
		var err error
		started := time.Now()
		configured, err = r.Configs.Config(ctx, s)
		all.Download += time.Since(started)
		if err == nil {
			err = r.follow(ctx, s, &configured, given, &all)
		}
		if err != nil {
			return all, err
		}
		variables, all.Substitution = &configured.Variables, render.NewSubstitution(configured.Variables)
	}
	trees := trees(s)
	for i, t := range trees {
		tests := ""
		if i == 0 && s.Spec.Policy.Tests != nil && s.Spec.Policy.Tests.Path != "" {
			tests = path.Join(t.folder, s.Spec.Policy.Tests.Path)
		}
		if err := r.renderTree(ctx, s, t, render.Input{
			Service: s.Name, Folder: t.folder, Steps: t.steps, Except: tests, Variables: variables, Installed: !applied.Installs(s.Inputs()),
		}, applied, given, &all); err != nil {
			return all, err
		}
	}
	given.save(ctx)
	if configured.Restart {
		if err := r.stampPods(ctx, s, configured.Variables, &all); err != nil {
			return all, err
		}
	}
	return all, all.separateTests()
}

// tree is one tree of files, and what is done with it.
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

// renderTree adds the objects and the tests of a tree to all.
func (r Renderer) renderTree(ctx context.Context, s plan.Service, t tree, in render.Input, applied inventory.Applied, given *given, all *Manifests) error {
	files, took, err := r.readTree(ctx, t, applied)
	all.Download += took
	if err != nil {
		return err
	}
	in.Files = files
	if tests, ok := in.Tests(); in.TakesFacts() || ok && tests.TakesFacts() {
		if in.Facts, err = r.facts(ctx, s); err != nil {
			return err
		}
		if in.Lookups, err = r.lookups(ctx, s, in.Steps); err != nil {
			return err
		}
	}
	if tests, ok := in.Tests(); ok {
		out, err := r.Generated.render(ctx, s, r.Engine, tests, r.IsTrial)
		if err != nil {
			return fmt.Errorf("read tests of %s: %w", t.origin(), err)
		}
		all.conceal(out.Secrets, given)
		if err := r.open(ctx, s, files, out.Objects, given, all); err != nil {
			return fmt.Errorf("read tests of %s: %w", t.origin(), err)
		}
		if err := all.readTests(out); err != nil {
			return err
		}
	}
	out, err := r.Generated.render(ctx, s, r.Engine, in, r.IsTrial)
	if err != nil {
		return fmt.Errorf("read manifests of %s: %w", t.origin(), err)
	}
	all.conceal(out.Secrets, given)
	if err := r.open(ctx, s, files, out.Objects, given, all); err != nil {
		return fmt.Errorf("read manifests of %s: %w", t.origin(), err)
	}
	all.take(out)
	for _, o := range out.Objects {
		all.Objects = append(all.Objects, all.place(o, t))
	}
	return nil
}

// facts returns what templates may ask for.
func (r Renderer) facts(ctx context.Context, s plan.Service) (render.Facts, error) {
	cluster, err := r.Cluster.ClusterFacts(ctx)
	if err != nil {
		return render.Facts{}, err
	}
	if limits := s.Spec.Policy.Limits; limits != nil && limits.ClusterAnnotations != nil {
		cluster.Annotations = maps.Clone(cluster.Annotations)
		maps.DeleteFunc(cluster.Annotations, func(key, _ string) bool { return !limits.ClusterAnnotations.Allows(key) })
	}
	_, name := objectname.Split(s.Name)
	facts := render.Facts{Cluster: cluster, Service: render.ServiceFacts{Name: name, Namespace: s.Spec.NamespaceOrDefault()}}
	for _, b := range s.Bundles {
		facts.Sources = append(facts.Sources, render.SourceFacts{
			Repository: b.Repository, Path: b.Path, Mount: b.Mount, Commit: b.Commit, Version: b.Version, Digest: b.Digest.String(),
		})
	}
	return facts, nil
}

// conceal makes texts secrets of the service, now and after a restart.
func (m *Manifests) conceal(texts []string, given *given) {
	if len(texts) == 0 {
		return
	}
	if m.Substitution == nil {
		m.Substitution = render.NewSubstitution(render.Variables{})
	}
	m.Substitution.Conceal(texts...)
	given.next.Opened = append(given.next.Opened, texts...)
}

// take adds what a render returned besides objects.
func (m *Manifests) take(out render.Output) {
	m.Warnings = append(m.Warnings, out.Warnings...)
	m.AsksFacts = m.AsksFacts || out.Asked != (render.Asked{}) || out.Generated.HasCertificate()
	m.HasGenerated = m.HasGenerated || len(out.Generated) > 0
	if m.Substitution != nil {
		m.Substitution.Taint(out.Tainted)
	}
}

// place records where an object stands. A service of several trees names the tree, too.
func (m *Manifests) place(o render.Object, t tree) *unstructured.Unstructured {
	m.Origins[o.Unstructured] = o.Origin()
	if t.sources {
		m.Origins[o.Unstructured] += " of " + t.origin()
	}
	return o.Unstructured
}

// readTree returns the files of a tree, and how long its bundles took to arrive.
func (r Renderer) readTree(ctx context.Context, t tree, applied inventory.Applied) (files *render.Files, took time.Duration, err error) {
	limits := r.Engine.Limits.WithDefaults()
	var sources []render.Mounted
	for i, b := range t.bundles {
		files, arrival, err := r.read(ctx, b, baseOf(applied, t.first+i), limits)
		took += arrival
		if err != nil {
			return nil, took, err
		}
		limits.Bytes = max(limits.Bytes-files.Size(), 1) // zero is the default
		sources = append(sources, render.Mounted{Files: files, Mount: b.Mount, Origin: b.Origin()})
	}
	if len(sources) == 1 && sources[0].Mount == "" {
		return sources[0].Files, took, nil
	}
	if files, err = render.Mount(sources, r.Engine.Limits); err != nil {
		return nil, took, fmt.Errorf("put the sources together: %w", err)
	}
	return files, took, nil
}

// read returns the files of a bundle, and how long the bundle took to arrive. It reads the bundle
// to its end, which is how the content is compared with the digest.
func (r Renderer) read(
	ctx context.Context, b plan.Bundle, base digest.Digest, limits render.Limits,
) (files *render.Files, took time.Duration, err error) {
	started := time.Now()
	content, err := r.Bundles.Open(ctx, b.Digest, base)
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
