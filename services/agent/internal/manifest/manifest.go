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

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// Configs gives access to configurations.
type Configs interface {
	// Config returns exactly the configuration that the service's ConfigDigest identifies. Errors are
	// *reason.Problem (DependencyUnavailable), and match ErrUnanswered, unless ctx ended.
	Config(ctx context.Context, s plan.Service) (Configuration, error)
}

// Cluster gives access to the facts of the cluster.
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
	// Engine renders. Its limits also bound the reading of bundles.
	Engine render.Split
}

// Render returns the manifests of all sources of s. Applied bundles help to download them. Errors
// are errors of rendering and *reason.Problem.
func (r Renderer) Render(ctx context.Context, s plan.Service, applied inventory.Applied) (Manifests, error) {
	all := Manifests{Origins: map[*unstructured.Unstructured]string{}}
	var variables *render.Variables
	var configured Configuration
	given := newGiven(r.Given, s)
	if s.ConfigDigest != "" {
		var err error
		started := time.Now()
		configured, err = r.Configs.Config(ctx, s)
		all.Download += time.Since(started)
		if err == nil {
			err = follow(ctx, r.Readers, s, &configured, given, &all)
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
		if err := stampPods(ctx, r.Generated, s, configured.Variables, r.IsTrial, &all); err != nil {
			return all, err
		}
	}
	return all, all.separateTests()
}

// renderTree adds the objects and the tests of a tree to all.
func (r Renderer) renderTree(ctx context.Context, s plan.Service, t tree, in render.Input, applied inventory.Applied, given *given, all *Manifests) error {
	files, took, err := readTree(ctx, r.Bundles, r.Engine.Limits, t, applied)
	all.Download += took
	if err != nil {
		return err
	}
	in.Files = files
	if tests, ok := in.Tests(); in.TakesFacts() || ok && tests.TakesFacts() {
		if in.Facts, err = r.facts(ctx, s); err != nil {
			return err
		}
		if in.Lookups, err = lookups(ctx, r.Readers, s, in.Steps); err != nil {
			return err
		}
	}
	if tests, ok := in.Tests(); ok {
		out, err := r.Generated.render(ctx, s, r.Engine, tests, r.IsTrial)
		if err != nil {
			return fmt.Errorf("read tests of %s: %w", t.origin(), err)
		}
		all.conceal(out.Secrets, given)
		if err := open(ctx, r.Readers, s, files, out.Objects, given, all); err != nil {
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
	if err := open(ctx, r.Readers, s, files, out.Objects, given, all); err != nil {
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
