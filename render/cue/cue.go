// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package cue makes objects with CUE. It evaluates one package of the service's tree with the
// library that the cue program is made of. Dependencies are vendored in the tree; the registry
// refuses.
//
// The library can neither be interrupted nor bounded, except that it finds structural cycles: an
// evaluation that takes long or much memory ends with the process. See render.StepRenderer.
package cue

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	lang "cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/load"
	"cuelang.org/go/cue/parser"
	cuejson "cuelang.org/go/encoding/json"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/facts"
	"github.com/leatdev/leat/render/objecttree"
)

const (
	// root is where the library believes the tree to be. The library looks on the disk for what the
	// tree does not have; no program can make a file below this folder.
	root = "/proc/leat"
	// objectsField is the expression of steps that have none.
	objectsField = "objects"
	// document is the field with configuration and facts.
	document = "leat"
)

// Renderer implements render.StepRenderer. The zero value is ready for use.
type Renderer struct{}

var _ render.StepRenderer = Renderer{}

// RenderStep implements render.StepRenderer. It checks ctx between loading, evaluating and writing.
func (Renderer) RenderStep(ctx context.Context, in render.StepInput) (render.StepOutput, error) {
	if ctx.Err() != nil {
		return render.StepOutput{}, context.Cause(ctx)
	}
	var options renderstep.CUEOptions
	if in.Step.CUE != nil {
		options = *in.Step.CUE
	}
	options.Expression = cmp.Or(options.Expression, objectsField)
	e := evaluation{in: in, options: options, place: cmp.Or(in.Folder, ".")}
	tags, err := in.Variables.ExpandTexts("cue.tags", options.Tags)
	if err != nil {
		return render.StepOutput{}, err
	}
	instance, err := e.load(tags)
	if err != nil {
		return render.StepOutput{}, err
	}
	asked := e.asks(instance)
	output := render.StepOutput{Asked: asked}
	if ctx.Err() != nil {
		return output, context.Cause(ctx)
	}
	value, err := e.evaluate(instance, asked)
	if err != nil {
		return output, err
	}
	if ctx.Err() != nil {
		return output, context.Cause(ctx)
	}
	output.Documents, err = e.documents(value)
	return output, err
}

// evaluation is the evaluation of one package, by one goroutine.
type evaluation struct {
	in      render.StepInput
	options renderstep.CUEOptions
	place   string // the folder, for errors without a position
}

// load reads the package and what it imports.
func (e *evaluation) load(tags map[string]string) (*build.Instance, error) {
	config := &load.Config{
		Overlay: map[string]load.Source{}, Dir: path.Join(root, e.in.Folder), ModuleRoot: path.Join(root, e.moduleRoot()),
		Registry: refusal{}, Env: []string{}, Stdin: strings.NewReader(""),
		Package: e.options.Package,
	}
	for _, name := range e.in.Files.Below("") {
		content, _ := e.in.Files.Get(name)
		config.Overlay[path.Join(root, name)] = load.FromBytes(content)
	}
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		if strings.Contains(name, "=") {
			return nil, &render.Error{Path: "cue.tags", Cause: fmt.Errorf("%q is not the name of a tag", name)}
		}
		tag := name
		if tags[name] != "" {
			tag += "=" + tags[name]
		}
		config.Tags = append(config.Tags, tag)
	}
	instances := load.Instances([]string{"."}, config)
	if len(instances) != 1 {
		return nil, &render.Error{Path: e.place, Cause: fmt.Errorf("holds %d packages, want one; name it in cue.package", len(instances))}
	}
	if err := instances[0].Err; err != nil {
		return nil, e.explain(err)
	}
	return instances[0], nil
}

// moduleRoot returns the nearest folder with a module file, at the step's or above it, or the step's.
func (e *evaluation) moduleRoot() string {
	for folder := e.in.Folder; ; folder = strings.TrimPrefix(path.Dir(folder), ".") {
		if _, found := e.in.Files.Get(path.Join(folder, "cue.mod/module.cue")); found {
			return folder
		}
		if folder == "" {
			return e.in.Folder
		}
	}
}

// asks returns the facts that the files of a package may read: a field of the package can be read
// by its name alone.
func (e *evaluation) asks(instance *build.Instance) render.Asked {
	texts := []string{e.options.Expression}
	for _, file := range instance.BuildFiles {
		content, _ := e.in.Files.Get(inTree(file.Filename))
		texts = append(texts, string(content))
	}
	mentions := func(word string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, word) })
	}
	return render.Asked{Facts: mentions(document), APIVersions: mentions(document) && mentions("apiVersions")}
}

// evaluate returns the value of the step's expression.
func (e *evaluation) evaluate(instance *build.Instance, asked render.Asked) (lang.Value, error) {
	if asked.Facts {
		if err := e.addDocument(instance, asked); err != nil {
			return lang.Value{}, err
		}
	}
	// Without these options the environment would choose.
	runtime := cuecontext.New(cuecontext.EvaluatorVersion(cuecontext.EvalStable), cuecontext.CUE_DEBUG(""))
	whole := runtime.BuildInstance(instance)
	if err := whole.Validate(); err != nil {
		return lang.Value{}, e.explain(err)
	}
	expression, err := parser.ParseExpr("cue.expression", e.options.Expression)
	if err != nil {
		return lang.Value{}, e.explain(err)
	}
	value := runtime.BuildExpr(expression, lang.Scope(whole), lang.InferBuiltins(true))
	if err := value.Validate(lang.Concrete(true), lang.Final()); err != nil {
		return lang.Value{}, e.explain(err)
	}
	return value, nil
}

// addDocument adds the document to the package, as a file beside the others would. Fields that the
// package itself gives the document are its schema.
func (e *evaluation) addDocument(instance *build.Instance, asked render.Asked) error {
	text, err := json.Marshal(facts.Document(e.in, asked))
	if err != nil {
		return fmt.Errorf("write %s: %w", document, err)
	}
	value, err := cuejson.Extract(document, text)
	if err != nil {
		return fmt.Errorf("read %s: %w", document, err)
	}
	file := &ast.File{Filename: document}
	if instance.PkgName != "" {
		file.Decls = append(file.Decls, &ast.Package{Name: ast.NewIdent(instance.PkgName)})
	}
	file.Decls = append(file.Decls, &ast.Field{Label: ast.NewIdent(document), Value: value})
	if err := instance.AddSyntax(file); err != nil {
		return e.explain(err)
	}
	return nil
}

// documents returns the objects of a value.
func (e *evaluation) documents(value lang.Value) ([]render.Document, error) {
	text, err := value.MarshalJSON()
	if err != nil {
		return nil, e.explain(err)
	}
	named, err := json.Marshal(map[string]json.RawMessage{e.options.Expression: text})
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", e.options.Expression, err)
	}
	return objecttree.Documents(e.place, named, e.in.Limits)
}
