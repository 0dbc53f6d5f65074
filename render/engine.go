// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/renderstep"
)

// maxWarnings and maxWarning bound the warnings of a render, in number and in bytes each.
const (
	maxWarnings = 100
	maxWarning  = 1 << 10
)

// MaxNotes bounds the notes of all charts of a render together, in bytes. Longer notes are cut.
const MaxNotes = 4 << 10

// Engine is a Renderer in the calling process. It is safe for concurrent use.
type Engine struct {
	// Renderers are the kinds of steps besides plain, which the Engine carries out itself.
	Renderers map[renderstep.Renderer]StepRenderer
	// Parameters compares parameters with schemas. Nil: an input with a schema is an error.
	Parameters ParameterChecker
	// Limits bound each render.
	Limits Limits
}

var _ Renderer = (*Engine)(nil)

// Render implements Renderer. A schema of the parameters is checked before the first step. It checks
// ctx before each step; a step ends early only if its library
// can. An error about missing variables has a *VariableError in its chain. Where the error of a step
// contains a secret of the configuration, or a value of a Secret that was looked up, it is masked.
func (e *Engine) Render(ctx context.Context, in Input) (Output, error) {
	r := run{engine: e, in: in, budget: newBudget(e.Limits)}
	if in.Variables != nil {
		r.substitution = NewSubstitution(*in.Variables)
	}
	if err := e.checkParameters(ctx, in); err != nil {
		return Output{}, r.maskError(err)
	}
	for i, step := range in.Steps {
		r.left = in.Steps[i+1:]
		if ctx.Err() != nil {
			return Output{}, context.Cause(ctx)
		}
		if err := r.step(ctx, step); err != nil {
			return Output{}, r.maskError(err)
		}
	}
	return r.output()
}

// maskError returns an error whose message holds no secret of the configuration, and no value of a
// Secret that a step could look up.
func (r *run) maskError(err error) error {
	var lookedUp []string
	for _, lookup := range r.in.Lookups {
		lookedUp = append(lookedUp, lookup.Secrets()...)
	}
	return r.substitution.and(lookedUp).maskError(err)
}

// checkParameters compares the parameters with the input's schema, if it has one.
func (e *Engine) checkParameters(ctx context.Context, in Input) (err error) {
	file := path.Join(in.Folder, SchemaFile)
	text, ok := in.Files.content[file]
	switch {
	case !ok || in.IsPart:
		return nil
	case len(text) > MaxSchema:
		return &LimitError{Path: file, Limit: LimitBytes, Message: "the schema has more than " + sizeText(MaxSchema)}
	case e.Parameters == nil:
		return errors.New("this program compares no parameters with schemas")
	}
	defer func() {
		if recover() != nil { // its message may hold a parameter
			err = &Error{Path: file, Cause: errors.New("the parameters cannot be compared with the schema")}
		}
	}()
	return e.Parameters.CheckParameters(ctx, file, text, in.Variables)
}

// run is one render. It belongs to one goroutine.
type run struct {
	engine       *Engine
	in           Input // Files grows by the files that steps make
	budget       *budget
	before       budget        // what it was before the last of parts was made
	substitution *Substitution // nil: there is no configuration

	done    []renderstep.Step // the steps so far, each with the renderer that was detected
	left    []renderstep.Step // the steps after the current one
	parts   [][]Object        // the objects of the steps so far that no later step has changed
	out     Output            // of all steps so far, except Objects and Tainted
	encodes bool              // a step was given the configuration before it began
}

func (r *run) step(ctx context.Context, step renderstep.Step) error {
	folder, err := r.in.Files.Folder(cmp.Or(step.Path, r.in.Folder))
	if err != nil {
		return err
	}
	step.Renderer = Detect(r.in.Files, folder, step.Renderer)
	r.done = append(r.done, step)
	p := parser{budget: r.budget, warn: r.warn}
	if r.replaces() {
		p.substitution = r.substitution
	}
	var previous []Object
	if last := len(r.parts) - 1; step.FromPrevious && last >= 0 {
		previous, r.parts = r.parts[last], r.parts[:last]
		*r.budget = r.before
	}
	r.before = *r.budget
	objects, err := r.objects(ctx, StepInput{Input: r.in, Step: step, Folder: folder, Previous: previous, Limits: r.budget.limits}, p)
	if err != nil {
		return err
	}
	r.encodes = r.encodes || step.Renderer.ProducesText()
	r.parts = append(r.parts, objects)
	return nil
}

// replaces reports whether the current step replaces variables in its objects. If the next step works
// on them and replaces variables, too, it is left to that one: the value of a variable is not
// searched for variables, and need not be known before the end.
func (r *run) replaces() bool {
	current := len(r.done) - 1
	replaced := renderstep.Substituted(slices.Concat(r.done, r.left))
	isLast := len(r.left) == 0 || !r.left[0].FromPrevious || !replaced[current+1]
	return replaced[current] && isLast
}

// objects carries out a step.
func (r *run) objects(ctx context.Context, in StepInput, p parser) ([]Object, error) {
	step := in.Step
	if step.Renderer == renderstep.Plain {
		p.quotes = true
		return plain(in.Files, in.Folder, in.Except, p)
	}
	renderer := r.engine.Renderers[step.Renderer]
	if renderer == nil {
		return nil, fmt.Errorf("this program has no renderer %q", step.Renderer)
	}
	out, err := guarded(ctx, renderer, in)
	if err != nil {
		return nil, err
	}
	if err := r.add(out); err != nil {
		return nil, err
	}
	if step.Renderer == renderstep.Liquid && (step.Liquid == nil || !step.Liquid.FilesOnly) {
		return plain(r.in.Files, in.Folder, in.Except, p)
	}
	var all []Object
	for _, document := range out.Documents {
		objects, err := p.read(document)
		earlier := max(document.Position, 1) - 1
		if invalid, ok := errors.AsType[*Error](err); ok && invalid.Document > 0 {
			invalid.Document += earlier
		}
		if err != nil {
			return nil, err
		}
		for i := range objects {
			objects[i].Document += earlier
			if err := annotate(objects[i], document.Annotations); err != nil {
				return nil, err
			}
		}
		all = append(all, objects...)
	}
	for _, o := range out.Objects {
		if err := p.object(o); err != nil {
			return nil, err
		}
	}
	return append(all, out.Objects...), nil
}

// annotate sets annotations of an object. It returns an *Error if the object's own are not a map of
// texts.
func annotate(o Object, annotations map[string]string) error {
	for name, value := range annotations {
		if err := unstructured.SetNestedField(o.Object, value, "metadata", "annotations", name); err != nil {
			return &Error{Path: o.Path, Document: o.Document, Cause: fmt.Errorf("set annotation %s: %w", name, err)}
		}
	}
	return nil
}

// guarded calls a renderer, and turns a panic of its library into an error of the content.
func guarded(ctx context.Context, renderer StepRenderer, in StepInput) (out StepOutput, err error) {
	defer func() {
		if failure := recover(); failure != nil {
			out, err = StepOutput{}, &Error{Path: cmp.Or(in.Folder, "."), Cause: fmt.Errorf("%s fails at this content: %v", in.Step.Renderer, failure)}
		}
	}()
	return renderer.RenderStep(ctx, in)
}

// add joins what a step returned besides documents to the results of the steps before.
func (r *run) add(out StepOutput) error {
	r.out.Asked = r.out.Asked.Add(out.Asked)
	for _, warning := range out.Warnings {
		r.warn(warning)
	}
	r.out.Secrets = append(r.out.Secrets, out.Secrets...)
	r.addNotes(out.Notes)
	if len(out.Generated) > 0 && r.out.Generated == nil {
		r.out.Generated = Generated{}
	}
	maps.Copy(r.out.Generated, out.Generated)
	if r.out.Generated.Size() > MaxGenerated {
		return exceeded(LimitBytes, "random functions of the templates return more than %s; keep generated values in a Secret of their own",
			sizeText(MaxGenerated))
	}
	size := r.in.Files.Size()
	for _, content := range out.Files {
		size += int64(len(content))
	}
	if size > r.budget.limits.Bytes {
		return exceeded(LimitBytes, "the files that templates make have, with those of the sources, more than %s", sizeText(r.budget.limits.Bytes))
	}
	r.in.Files = r.in.Files.With(out.Files)
	return nil
}

// warn adds a warning, if there is room.
func (r *run) warn(warning string) {
	if len(r.out.Warnings) < maxWarnings {
		r.out.Warnings = append(r.out.Warnings, cut(warning, maxWarning))
	}
}

// addNotes adds the notes of a chart. A secret is masked before the text is cut, so that no part of it
// is left at the end.
func (r *run) addNotes(notes string) {
	room := MaxNotes
	for _, before := range r.out.Notes {
		room -= len(before)
	}
	notes = r.substitution.and(r.out.Secrets).Mask(strings.TrimSpace(notes))
	if notes != "" && room > 0 {
		r.out.Notes = append(r.out.Notes, strings.ToValidUTF8(cut(notes, room), ""))
	}
}

func (r *run) output() (Output, error) {
	out := r.out
	for _, part := range r.parts {
		out.Objects = append(out.Objects, part...)
	}
	slices.Sort(out.Secrets)
	out.Secrets = slices.Compact(out.Secrets)
	if r.encodes && r.substitution != nil {
		if err := r.substitution.findSecrets(out.Objects); err != nil {
			return Output{}, err
		}
	}
	secrets := r.substitution.and(out.Secrets)
	if secrets != r.substitution {
		secrets.taintSecrets(out.Objects)
	}
	for i, warning := range out.Warnings {
		out.Warnings[i] = secrets.Mask(warning)
	}
	out.Tainted = secrets.taintedTexts()
	return out, nil
}

// Detect returns the renderer of a step that works on a folder: the given one or, if that is Auto, the
// one that the files of the folder ask for.
func Detect(files *Files, folder string, renderer renderstep.Renderer) renderstep.Renderer {
	if renderer != renderstep.Auto {
		return renderer
	}
	if kustomization(files, folder) != "" {
		return renderstep.Kustomize
	}
	if _, isChart := files.content[path.Join(folder, ChartFile)]; isChart {
		return renderstep.Helm
	}
	return renderstep.Plain
}

// ChartFile is the file that makes a folder a Helm chart.
const ChartFile = "Chart.yaml"

// KustomizationFiles returns the names that kustomize gives kustomizations, in its order of
// preference.
func KustomizationFiles() []string {
	return []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}
}

// kustomization returns the kustomization file of a folder, or "".
func kustomization(files *Files, folder string) string {
	for _, base := range KustomizationFiles() {
		name := path.Join(folder, base)
		if _, ok := files.content[name]; ok {
			return name
		}
	}
	return ""
}

func cut(text string, most int) string {
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// TakesFacts reports whether a step may ask for the facts. An input that does not take them may be
// rendered without.
func (in Input) TakesFacts() bool {
	return slices.ContainsFunc(in.Steps, func(step renderstep.Step) bool {
		folder, err := in.Files.Folder(cmp.Or(step.Path, in.Folder))
		return step.Renderer.ProducesText() || err == nil && Detect(in.Files, folder, step.Renderer).ProducesText()
	})
}
