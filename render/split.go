// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"github.com/leatdev/leat/internal/contract/renderstep"
)

// Split is a Renderer that reads plain manifests in the calling process, and leaves the rest to
// another Renderer, such as the workers: kustomizations without the service's configuration, which
// is put in afterwards, and whole inputs if one of their steps needs the configuration before it
// begins. A schema is compared by the other Renderer, too, which is given the schema alone. It is
// safe for concurrent use.
type Split struct {
	// Limits bound the renders in the calling process.
	Limits Limits
	// Others carries out everything else. Nil: it is an error.
	Others Renderer
}

var _ Renderer = Split{}

// Render implements Renderer.
func (s Split) Render(ctx context.Context, in Input) (Output, error) {
	if !in.TakesFacts() {
		other := elsewhere{renderer: s.Others, service: in.Service}
		builder := map[renderstep.Renderer]StepRenderer{renderstep.Kustomize: other}
		return (&Engine{Renderers: builder, Parameters: other, Limits: s.Limits}).Render(ctx, in)
	}
	if s.Others == nil {
		return Output{}, errNoOthers
	}
	return s.Others.Render(ctx, in)
}

var errNoOthers = errors.New("this program renders plain manifests only")

// elsewhere carries out a step of a service with another Renderer, which learns nothing of the
// configuration.
type elsewhere struct {
	renderer Renderer
	service  string
}

// RenderStep implements StepRenderer.
func (e elsewhere) RenderStep(ctx context.Context, in StepInput) (StepOutput, error) {
	if e.renderer == nil {
		return StepOutput{}, errNoOthers
	}
	step := in.Step
	step.Path = cmp.Or(in.Folder, ".")
	alone := Input{Service: e.service, Files: in.Files, Steps: []renderstep.Step{step}, IsPart: true}
	if step.FromPrevious {
		if err := alone.putBefore(in.Previous); err != nil {
			return StepOutput{}, err
		}
	}
	out, err := e.renderer.Render(ctx, alone)
	return StepOutput{Objects: out.Objects, Asked: out.Asked, Warnings: out.Warnings}, err
}

// CheckParameters implements ParameterChecker: it renders a tree that holds the schema and nothing
// else.
func (e elsewhere) CheckParameters(ctx context.Context, file string, schema []byte, variables *Variables) error {
	if e.renderer == nil {
		return errNoOthers
	}
	folder := path.Dir(file)
	_, err := e.renderer.Render(ctx, Input{
		Service: e.service, Files: NewFiles(map[string][]byte{file: schema}), Folder: folder, Variables: variables,
		Steps: []renderstep.Step{{Path: folder, Renderer: renderstep.Plain}},
	})
	return err
}

// putBefore adds a first step that makes the given objects.
func (in *Input) putBefore(objects []Object) error {
	folder := "leat-previous-step"
	for in.Files.HasFolder(folder) {
		folder += "_"
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, o := range objects {
		text.WriteString("---\n")
		if err := encoder.Encode(o.Object); err != nil {
			return fmt.Errorf("write objects of the step before: %w", err)
		}
	}
	in.Files = in.Files.With(map[string][]byte{path.Join(folder, "objects.yaml"): text.Bytes()})
	in.Steps = append([]renderstep.Step{{Path: folder, Renderer: renderstep.Plain}}, in.Steps...)
	return nil
}
