// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package localrender renders services from folders of this machine as agents render them from
// bundles: the same selection of files, the same engine in the same worker processes, the same
// limits.
//
// [FromFolder] and [FromDocument] make a [Service] of what a person gives, and [Service.Render]
// renders it. Nothing asks a hub or a cluster.
package localrender

import (
	"context"
	"fmt"
	"path"

	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/internal/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/gitcache/worktree"
)

// Source is a source of a service, and the folder that stands for its repository.
type Source struct {
	Root  string
	Wire  *typev1.Source
	Mount string
}

// Service is what is rendered. Nobody changes it while it is rendered.
type Service struct {
	Sources []Source
	// Extra are files beside those of the sources, by their path in the tree.
	Extra map[string][]byte
	// Renderer is the step of sources without Steps.
	Renderer renderstep.Renderer
	Steps    []renderstep.Step
	// Tests is the folder of the service's tests, from the first source's path. Empty: it has none.
	Tests string
	// Variables are nil without a configuration.
	Variables *render.Variables
	// Facts are what is known of the service and its cluster; Render adds the sources.
	Facts     render.Facts
	Installed bool
}

// Settings are what people say about a render beside its content.
type Settings struct {
	// Values and Secrets are variables. They replace those of a document.
	Values, Secrets map[string]string
	// KubernetesVersion is such as v1.36.0, and APIVersions are those that the cluster serves.
	KubernetesVersion string
	APIVersions       []string
	Installed         bool
}

// variables returns the variables of a configuration, or nil if it has none.
func variables(values, secrets map[string]string) *render.Variables {
	if len(values)+len(secrets) == 0 {
		return nil
	}
	return &render.Variables{Values: values, Secrets: secrets}
}

// Result is what a render makes.
type Result struct {
	// Objects come in the order of the agent's renderers; those of the folder of tests come last.
	Objects []render.Object
	// Warnings are for the service's owner.
	Warnings []string
	// HasGenerated reports that templates have generated values at random.
	HasGenerated bool

	substitution *render.Substitution // nil: there is no configuration
}

// Mask replaces the secrets of the configuration in a text.
func (r Result) Mask(text string) string { return r.substitution.Mask(text) }

// Render renders the service. Errors are those of render.Renderer, and *reason.Problem about the
// content of folders.
func (s Service) Render(ctx context.Context, engine render.Renderer, limits render.Limits) (Result, error) {
	var contents []render.Mounted
	var places []render.SourcePlace
	room := limits.WithDefaults()
	for _, source := range s.Sources {
		files, folder, err := source.read(ctx, room)
		if err != nil {
			return Result{}, s.within(source, err)
		}
		room.Bytes = max(room.Bytes-files.Size(), 1) // zero is the default
		contents = append(contents, render.Mounted{Files: files, Mount: source.Mount, Origin: source.origin()})
		places = append(places, render.SourcePlace{Mount: source.Mount, Folder: folder})
		s.Facts.Sources = append(s.Facts.Sources, render.SourceFacts{
			Repository: source.Wire.GetRepository(), Path: source.Wire.GetPath(), Mount: source.Mount,
		})
	}
	var result Result
	if s.Variables != nil {
		result.substitution = render.NewSubstitution(*s.Variables)
	}
	trees := render.Trees(places, s.Renderer, s.Steps)
	for i, tree := range trees {
		files, err := s.files(contents[tree.First:tree.First+tree.Count], limits)
		if err != nil {
			return Result{}, fmt.Errorf("put the sources together: %w", err)
		}
		in := render.Input{
			Files: files, Folder: tree.Folder, Steps: tree.Steps, Variables: s.Variables, Facts: s.Facts, Installed: s.Installed,
		}
		if i == 0 && s.Tests != "" {
			in.Except = path.Join(tree.Folder, s.Tests)
		}
		made := len(result.Objects)
		if err := result.add(ctx, engine, in); err != nil {
			return Result{}, s.within(s.Sources[tree.First], err)
		}
		if len(trees) > 1 {
			for i := range result.Objects[made:] {
				result.Objects[made+i].Path += " of " + s.Sources[tree.First].origin()
			}
		}
	}
	return result, nil
}

// within adds to an error which source it is about, if the service has several.
func (s Service) within(source Source, err error) error {
	if len(s.Sources) == 1 {
		return err
	}
	return fmt.Errorf("%s: %w", source.origin(), err)
}

// origin names the source in messages.
func (s Source) origin() string { return "repository " + s.Wire.GetRepository() }

// read returns the files of a source, and the folder of its path among them.
func (s Source) read(ctx context.Context, limits render.Limits) (*render.Files, string, error) {
	content, err := worktree.Read(ctx, s.Root, s.Wire)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = content.Tar.Close() }() // only read
	files, err := render.Read(bundle.NewReader(content.Tar, bundle.Limits{}), limits)
	return files, content.Folder, err
}

// files returns the files of a tree.
func (s Service) files(contents []render.Mounted, limits render.Limits) (*render.Files, error) {
	files := contents[0].Files
	if len(contents) > 1 || contents[0].Mount != "" {
		var err error
		if files, err = render.Mount(contents, limits); err != nil {
			return nil, err
		}
	}
	return files.With(s.Extra), nil
}

// add adds what an input makes: its objects, and then its tests.
func (r *Result) add(ctx context.Context, engine render.Renderer, in render.Input) error {
	inputs := []render.Input{in}
	if tests, ok := in.Tests(); ok {
		inputs = append(inputs, tests)
	}
	for _, in := range inputs {
		out, err := engine.Render(ctx, in)
		if err != nil {
			return err
		}
		r.Objects = append(r.Objects, out.Objects...)
		r.Warnings = append(r.Warnings, out.Warnings...)
		r.HasGenerated = r.HasGenerated || len(out.Generated) > 0
	}
	return nil
}
