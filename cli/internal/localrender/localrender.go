// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package localrender renders services from folders of this machine as agents render them from
// bundles: the same selection of files, the same engine in the same worker processes, the same
// limits.
//
// [FromFolder] and [FromDocument] make a [Service] of what a person gives, [FromPlan] one of what a hub
// delivers, and [Service.Render] renders it. Nothing but the given Download asks a hub, and nothing a
// cluster.
package localrender

import (
	"context"
	"fmt"
	"path"
	"strings"

	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/gitcache/worktree"
)

// Source is a source of a service, and the folder that stands for its repository.
type Source struct {
	Root  string
	Wire  *typev1.Source
	Mount string
	// Bundle is the content, in place of the folder Root. Nil: there is none.
	Bundle *Bundle
}

// Service is the service to render. It must not change during the render.
type Service struct {
	Sources []Source
	// Extra are files in addition to the sources' files, by their path in the tree.
	Extra map[string][]byte
	// Renderer is the step of sources without Steps.
	Renderer renderstep.Renderer
	Steps    []renderstep.Step
	// Tests is the folder of the service's tests, from the first source's path. Empty: it has none.
	Tests string
	// Variables are nil without a configuration.
	Variables *render.Variables
	// Placeholders are the keys of secrets that only the hub knows, sorted: see [Placeholder].
	Placeholders []string
	// Facts describe the service and its cluster; Render adds the sources.
	Facts     render.Facts
	Installed bool
}

// Settings are the choices that people make for a render, apart from its content.
type Settings struct {
	// Values and Secrets are variables. They replace the variables of a document.
	Values, Secrets map[string]string
	// KubernetesVersion is such as v1.36.0, and APIVersions are the versions that the cluster serves.
	KubernetesVersion string
	APIVersions       []string
	Installed         bool
	// HasPlaceholders puts placeholders in place of secrets that only the hub knows. False: they are
	// an error.
	HasPlaceholders bool
}

// Placeholder returns the text that stands for a secret which only the hub knows.
func Placeholder(key string) string { return "SECRET_" + key }

// variables returns the variables of a configuration, or nil if it has none.
func variables(values, secrets map[string]string) *render.Variables {
	if len(values)+len(secrets) == 0 {
		return nil
	}
	return &render.Variables{Values: values, Secrets: secrets}
}

// Result is the output of a render.
type Result struct {
	// Objects come in the order of the agent's renderers; the objects of the folder of tests come
	// last.
	Objects []render.Object
	// Warnings are for the service's owner.
	Warnings []string
	// Notes are the charts' messages to the person who installs them.
	Notes []string
	// HasGenerated reports that templates have generated values at random.
	HasGenerated bool

	substitution *render.Substitution // nil: there is no configuration
}

// Mask replaces the secrets of the configuration in a text.
func (r Result) Mask(text string) string { return r.substitution.Mask(text) }

// Render renders the service. It returns the errors of render.Renderer, and a *reason.Problem about
// the content of folders.
func (s Service) Render(ctx context.Context, engine render.Renderer, limits render.Limits) (Result, error) {
	trees, err := s.Trees(ctx, limits)
	if err != nil {
		return Result{}, err
	}
	var result Result
	if s.Variables != nil {
		result.substitution = render.NewSubstitution(*s.Variables)
	}
	for i, tree := range trees {
		in := tree.Input
		in.Variables, in.Facts, in.Installed = s.Variables, s.facts(), s.Installed
		if i == 0 && s.Tests != "" {
			in.Except = path.Join(in.Folder, s.Tests)
		}
		made := len(result.Objects)
		if err := result.add(ctx, engine, in); err != nil {
			return Result{}, s.within(s.Sources[tree.first], err)
		}
		if len(trees) > 1 {
			for i := range result.Objects[made:] {
				result.Objects[made+i].Path += " of " + s.Sources[tree.first].origin()
			}
		}
	}
	return result, nil
}

// Tree is one tree of the service's files, and the steps that render it.
type Tree struct {
	// Input has files, folder and steps, and nothing of the service's configuration and facts.
	Input render.Input
	// Origin names the tree's source. Empty: the service has one tree.
	Origin string

	first int // the place of its first source among the service's
}

// Trees reads the service's files. Its errors are the errors of Render.
func (s Service) Trees(ctx context.Context, limits render.Limits) ([]Tree, error) {
	var contents []render.Mounted
	var places []render.SourcePlace
	room := limits.WithDefaults()
	for _, source := range s.Sources {
		files, folder, err := source.read(ctx, room)
		if err != nil {
			return nil, s.within(source, err)
		}
		room.Bytes = max(room.Bytes-files.Size(), 1) // zero is the default
		contents = append(contents, render.Mounted{Files: files, Mount: source.Mount, Origin: source.origin()})
		places = append(places, render.SourcePlace{Mount: source.Mount, Folder: folder})
	}
	var all []Tree
	found := render.Trees(places, s.Renderer, s.Steps)
	for _, t := range found {
		files, err := s.files(contents[t.First:t.First+t.Count], limits)
		if err != nil {
			return nil, fmt.Errorf("put the sources together: %w", err)
		}
		tree := Tree{first: t.First, Input: render.Input{Files: files, Folder: t.Folder, Steps: t.Steps}}
		if len(found) > 1 {
			tree.Origin = s.Sources[t.First].origin()
		}
		all = append(all, tree)
	}
	return all, nil
}

// facts returns what templates may know of the service.
func (s Service) facts() render.Facts {
	facts := s.Facts
	for _, source := range s.Sources {
		facts.Sources = append(facts.Sources, source.facts())
	}
	return facts
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

// facts returns what templates may know of the source.
func (s Source) facts() render.SourceFacts {
	if s.Bundle != nil {
		return s.Bundle.Facts
	}
	return render.SourceFacts{Repository: s.Wire.GetRepository(), Path: s.Wire.GetPath(), Mount: s.Mount}
}

// read returns the files of a source, and the folder of its path among them.
func (s Source) read(ctx context.Context, limits render.Limits) (*render.Files, string, error) {
	if s.Bundle != nil {
		files, err := s.Bundle.read(ctx, limits)
		return files, s.Bundle.Folder, err
	}
	content, err := worktree.Read(ctx, s.Root, s.Wire)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = content.Tar.Close() }() // only read
	files, err := render.Read(bundle.NewReader(content.Tar, bundle.Limits{}), limits)
	return files, content.Folder, err
}

// ReadFolder returns the files of a folder as a source has them, by their path from the folder.
func ReadFolder(ctx context.Context, dir string, limits render.Limits) (*render.Files, error) {
	root, inside, err := worktree.Locate(dir)
	if err != nil {
		return nil, err
	}
	files, folder, err := Source{Root: root, Wire: &typev1.Source{Path: inside}}.read(ctx, limits)
	if err != nil || folder == "" || folder == "." {
		return files, err
	}
	content := map[string][]byte{}
	for _, name := range files.Below(folder) {
		content[strings.TrimPrefix(name, folder+"/")], _ = files.Get(name)
	}
	return render.NewFiles(content), nil
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
		r.Notes = append(r.Notes, out.Notes...)
		r.HasGenerated = r.HasGenerated || len(out.Generated) > 0
	}
	return nil
}
