// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package liquid renders Liquid templates in place: x.yaml.liquid becomes x.yaml. Variables and
// filters are the ones that users of Plural know, and Leat's own document. It makes no objects: the
// render.Engine reads the folder as plain manifests afterwards, unless the step wants files only.
//
// The library can neither be interrupted nor bounded. The package therefore puts its own bounds
// where templates pass through code of its own: in what they write, in every filter and in
// includes. A loop without any of these, and captures of captures, end with the process. See
// render.StepRenderer.
package liquid

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/osteele/liquid"
	"github.com/osteele/liquid/parser"

	"github.com/leatdev/leat/render"
)

// Extension marks templates.
const Extension = ".liquid"

// Renderer implements render.StepRenderer. The zero value is ready for use.
type Renderer struct{}

var _ render.StepRenderer = Renderer{}

// RenderStep implements render.StepRenderer. It checks ctx wherever a template writes, and in every
// filter.
func (Renderer) RenderStep(ctx context.Context, in render.StepInput) (render.StepOutput, error) {
	if ctx.Err() != nil {
		return render.StepOutput{}, context.Cause(ctx)
	}
	in.Limits = in.Limits.WithDefaults()
	r := &run{ctx: ctx, in: in, bounds: bounds{ctx: ctx, most: in.Limits.Text}, parsed: map[string]*liquid.Template{}}
	r.engine = r.newEngine()
	output := render.StepOutput{Files: map[string][]byte{}}
	for _, name := range in.Files.Below(in.Folder) {
		if !strings.HasSuffix(name, Extension) {
			continue
		}
		text, err := r.execute(name, r.bindings())
		if err != nil {
			return render.StepOutput{Asked: r.asked}, err
		}
		result := strings.TrimSuffix(name, Extension)
		if err := r.checkName(name, result, text); err != nil {
			return render.StepOutput{Asked: r.asked}, err
		}
		output.Files[result] = text
	}
	output.Asked = r.asked
	return output, nil
}

// checkName returns an error if a template's result has no name, or would hide a file.
func (r *run) checkName(template, result string, text []byte) error {
	if path.Base(template) == Extension {
		return &render.Error{Path: template, Cause: errors.New("has no name but the extension; name it after the file that it makes")}
	}
	if existing, found := r.in.Files.Get(result); found && string(existing) != string(text) {
		return &render.Error{Path: template, Cause: fmt.Errorf("%s exists, too, and has other content; remove one of them", result)}
	}
	return nil
}

// execute renders a file with variables.
func (r *run) execute(name string, bindings map[string]any) (text []byte, err error) {
	template, err := r.parse(name)
	if err != nil {
		return nil, err
	}
	outer := r.file
	r.file = name
	defer func() { r.file = outer }()
	defer func() {
		if failure := recover(); failure != nil { // the library panics if a write fails, and at some mistakes of a template
			text, err = nil, r.explainPanic(name, failure)
		}
	}()
	out := &writer{bounds: &r.bounds}
	if failure := template.FRender(out, bindings); failure != nil {
		return nil, r.explain(name, failure)
	}
	return out.text.Bytes(), nil
}

// parse returns the parsed template of a file. It parses each file once.
func (r *run) parse(name string) (*liquid.Template, error) {
	if template, known := r.parsed[name]; known {
		return template, nil
	}
	source, _ := r.in.Files.Get(name)
	if err := checkClosed(name, string(source)); err != nil {
		return nil, err
	}
	template, err := r.engine.ParseTemplateLocation(source, name, 1)
	if err != nil {
		return nil, r.explain(name, err)
	}
	r.parsed[name] = template
	return template, nil
}

// checkClosed returns an error about a tag without an end. The library takes it for text.
func checkClosed(name, source string) error {
	verbatim := ""
	for _, token := range parser.Scan(source, parser.SourceLoc{Pathname: name, LineNo: 1}, nil) {
		switch token.Type {
		case parser.TagTokenType:
			if verbatim == "" && (token.Name == "raw" || token.Name == "comment") {
				verbatim = "end" + token.Name
			} else if token.Name == verbatim {
				verbatim = ""
			}
		case parser.TextTokenType:
			for _, mark := range [][2]string{{"{{", "}}"}, {"{%", "%}"}} {
				if before, _, found := strings.Cut(token.Source, mark[0]); found && verbatim == "" {
					return &render.Error{
						Path:  fmt.Sprintf("%s:%d", name, token.SourceLoc.LineNo+strings.Count(before, "\n")),
						Cause: fmt.Errorf("%s has no %s in its line; close it, or put text that stays as it is between {%% raw %%} and {%% endraw %%}", mark[0], mark[1]),
					}
				}
			}
		case parser.ObjTokenType, parser.TrimLeftTokenType, parser.TrimRightTokenType:
		}
	}
	return nil
}
