// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package jsonnet makes objects with Jsonnet. It evaluates one file of the service's tree with the
// library that the jsonnet program is made of. Imports come from the tree alone.
//
// The library bounds recursion, and nothing else: an endless loop, and a text or a list that grows
// without bounds, end with the process. See render.StepRenderer.
package jsonnet

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/google/go-jsonnet"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/facts"
	"github.com/leatdev/leat/render/objecttree"
)

const (
	// mainFile is the file of steps that name none.
	mainFile = "main.jsonnet"
	// maxStack bounds calls within calls. It is the default of the jsonnet program.
	maxStack = 500
	// maxTrace bounds the bytes of std.trace that become warnings.
	maxTrace = 4 << 10
)

// Renderer implements render.StepRenderer. The zero value is ready for use.
type Renderer struct{}

// RenderStep implements render.StepRenderer. It checks ctx before it begins and at each import. It
// reports as asked what the evaluation read of the facts, also if it fails.
func (Renderer) RenderStep(ctx context.Context, in render.StepInput) (render.StepOutput, error) {
	if ctx.Err() != nil {
		return render.StepOutput{}, context.Cause(ctx)
	}
	var options renderstep.JsonnetOptions
	if in.Step.Jsonnet != nil {
		options = *in.Step.Jsonnet
	}
	arguments, err := in.Variables.ExpandTexts("jsonnet.arguments", options.Arguments)
	if err != nil {
		return render.StepOutput{}, err
	}
	file := path.Join(in.Folder, options.File)
	if options.File == "" {
		file = path.Join(in.Folder, mainFile)
	}
	if _, found := in.Files.Get(file); !found {
		return render.StepOutput{}, &render.Error{
			Path: file, Cause: fmt.Errorf("no such file; create it, or name another one in jsonnet.file, relative to the step's path"),
		}
	}
	e := evaluation{in: in, trace: &bounded{room: maxTrace}}
	return e.run(ctx, file, newImporter(ctx, in.Files, libraries(in.Folder, options.LibraryPaths)), arguments)
}

// evaluation is the evaluation of one file, by one goroutine.
type evaluation struct {
	in    render.StepInput
	trace *bounded
	asked render.Asked
}

func (e *evaluation) run(ctx context.Context, file string, imports *importer, arguments map[string]string) (render.StepOutput, error) {
	formatter := &formatter{file: file}
	vm := jsonnet.MakeVM()
	vm.MaxStack = maxStack
	vm.Importer(imports)
	vm.ErrorFormatter = formatter
	vm.SetTraceOut(e.trace)
	e.offerFacts(vm)
	for name, text := range arguments {
		vm.TLAVar(name, text)
	}
	result, err := vm.EvaluateFile(file)
	if ctx.Err() != nil {
		return render.StepOutput{}, context.Cause(ctx)
	}
	output := render.StepOutput{Asked: e.asked, Warnings: e.trace.lines()}
	if err != nil {
		return output, formatter.failure
	}
	output.Documents, err = objecttree.Documents(file, []byte(result), e.in.Limits)
	return output, err
}

// The names of the native functions behind std.extVar("leat"). Each is called when, and only if, a
// template reads what it returns.
const (
	nativeConfig      = "leat/config"
	nativeFacts       = "leat/facts"
	nativeAPIVersions = "leat/apiVersions"
)

// extVar is the code of std.extVar("leat"). Jsonnet evaluates a field when it is read.
const extVar = `{
  config: std.native("` + nativeConfig + `")(),
  facts: std.native("` + nativeFacts + `")() + {cluster+: {apiVersions: std.native("` + nativeAPIVersions + `")()}},
  installed: %t,
}`

// offerFacts sets std.extVar("leat") to the document of package facts, and notes which parts the
// render reads.
func (e *evaluation) offerFacts(vm *jsonnet.VM) {
	vm.ExtCode("leat", fmt.Sprintf(extVar, e.in.Installed))
	for name, read := range map[string]func() any{
		nativeConfig: func() any { return facts.Config(e.in.Variables) },
		nativeFacts: func() any {
			e.asked.Facts = true
			return facts.Facts(e.in.Facts, false)
		},
		nativeAPIVersions: func() any {
			e.asked.APIVersions = true
			return facts.APIVersions(e.in.Facts)
		},
	} {
		vm.NativeFunction(&jsonnet.NativeFunction{Name: name, Func: func([]any) (any, error) { return read(), nil }})
	}
}

// bounded keeps the beginning of what std.trace writes.
type bounded struct {
	text bytes.Buffer
	room int
}

// Write implements io.Writer. It drops what exceeds the room.
func (b *bounded) Write(text []byte) (int, error) {
	kept := min(len(text), b.room)
	b.room -= kept
	b.text.Write(text[:kept])
	return len(text), nil
}

func (b *bounded) lines() []string {
	text := strings.TrimSpace(strings.ToValidUTF8(b.text.String(), ""))
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
