// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package wasm makes objects with WebAssembly modules: the way to bring a renderer of one's own.
//
// A module is a command of WASI preview 1, and a file of the service's tree. It reads a ResourceList
// of KRM functions on its standard input, and writes another to its standard output.
// docs/guides/renderers.md is the contract. A module has no network, no environment, no disk but
// the tree, and no clock or chance unless its step allows them.
//
// The package bounds a module's memory, time and output by itself. It does not bound the
// compilation, nor tables: the process does. See render.StepRenderer.
package wasm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/sys"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/objecttree"
)

const (
	// maxModule bounds a module's bytes. Go's modules have some 3 MiB.
	maxModule = 32 << 20
	// maxMemory bounds a module's linear memory, in bytes.
	maxMemory = 256 << 20
	// maxTime bounds a run.
	maxTime = 10 * time.Second
	// maxErrors bounds the bytes of the standard error that a message quotes: the last ones.
	maxErrors = 4 << 10
)

// Renderer implements render.StepRenderer. It keeps some compiled modules in memory. NewRenderer
// makes one.
type Renderer struct {
	modules *modules
	limits  limits
}

var _ render.StepRenderer = (*Renderer)(nil)

// limits bound a run. Tests have smaller ones.
type limits struct {
	memory uint64
	time   time.Duration
}

// NewRenderer returns a Renderer that has compiled nothing yet.
func NewRenderer() *Renderer {
	return &Renderer{modules: newModules(), limits: limits{memory: maxMemory, time: maxTime}}
}

// Close frees the compiled modules. No step may be running, and none may begin afterwards.
func (r *Renderer) Close(ctx context.Context) error { return r.modules.close(ctx) }

// errTooLong is the cause of a context that ended because a module took too long.
var errTooLong = errors.New("the module takes too long")

// RenderStep implements render.StepRenderer. It ends the module when ctx ends.
func (r *Renderer) RenderStep(ctx context.Context, in render.StepInput) (render.StepOutput, error) {
	if ctx.Err() != nil {
		return render.StepOutput{}, context.Cause(ctx)
	}
	if in.Step.WASM == nil {
		return render.StepOutput{}, &render.Error{Path: "wasm", Cause: errors.New("the step names no module; set wasm.module")}
	}
	options := *in.Step.WASM
	in.Limits = in.Limits.WithDefaults()
	request, asked, err := encodeRequest(in, options)
	if err != nil {
		return render.StepOutput{}, err
	}
	binary, found := in.Files.Get(options.Module)
	if !found {
		return render.StepOutput{}, &render.Error{
			Path: options.Module, Cause: errors.New("no such file; name the module in wasm.module, from the root of the service's tree"),
		}
	}
	if len(binary) > maxModule {
		return render.StepOutput{}, &render.LimitError{
			Path: options.Module, Limit: render.LimitBytes, Message: fmt.Sprintf("the module has more than %d MiB", maxModule>>20),
		}
	}
	module, err := r.modules.get(ctx, options.Module, binary)
	if err != nil {
		return render.StepOutput{}, err
	}
	defer module.release(ctx)
	s := newSandbox(in, options, request, r.limits.memory)
	err = r.run(ctx, module.compiled, s, options.Module)
	return r.output(in, options, s, asked, err)
}

// exitError is the exit status of a module, other than 0, or what ended it.
type exitError struct{ text string }

func (e *exitError) Error() string { return e.text }

// run runs a module to its end. The error is an *exitError if the module failed by itself.
func (r *Renderer) run(ctx context.Context, module wazero.CompiledModule, s *sandbox, name string) error {
	running, cancel := context.WithTimeoutCause(ctx, r.limits.time, errTooLong)
	defer cancel()
	s.output.end = cancel
	err := r.instantiate(running, module, s, name)
	exit := new(sys.ExitError)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.output.exceeded:
		return &render.LimitError{
			Path: name, Limit: render.LimitText, Message: fmt.Sprintf("the module writes more than %d MiB; split the service", s.output.most>>20),
		}
	case running.Err() != nil:
		return &render.LimitError{
			Path: name, Limit: render.LimitTime, Message: fmt.Sprintf("the module takes longer than %v; make it faster, or split the service", r.limits.time),
		}
	case err == nil, errors.As(err, &exit) && exit.ExitCode() == 0:
		return nil
	case s.memory.exceeded:
		return &render.LimitError{
			Path: name, Limit: render.LimitMemory, Message: fmt.Sprintf("the module needs more than %d MiB of memory; split the service", r.limits.memory>>20),
		}
	case exit.ExitCode() != 0:
		return &exitError{fmt.Sprintf("the module ended with status %d", exit.ExitCode())}
	}
	return &exitError{"the module failed: " + firstLine(err.Error())}
}

// instantiate runs a module, which ends before it returns.
func (r *Renderer) instantiate(ctx context.Context, module wazero.CompiledModule, s *sandbox, name string) (err error) {
	defer func() {
		if failure := recover(); failure != nil { // such as at a module that declares more memory than it gets
			err = fmt.Errorf("%v", failure)
		}
	}()
	instance, err := r.modules.runtime.InstantiateModule(s.memory.context(ctx), module, s.config(ctx, name))
	if instance != nil {
		_ = instance.Close(ctx) // it only frees memory
	}
	return err
}

// output reads what a module wrote.
func (r *Renderer) output(
	in render.StepInput, options renderstep.WASMOptions, s *sandbox, asked render.Asked, failure error,
) (render.StepOutput, error) {
	output := render.StepOutput{Asked: asked}
	exit := new(exitError)
	if failure != nil && !errors.As(failure, &exit) {
		return output, failure
	}
	response, err := decodeResponse(s.output.text.Bytes())
	if err == nil {
		if problem := response.problem(options.Module); problem != nil {
			return output, problem
		}
	}
	if failure != nil {
		return output, &render.Error{Path: options.Module, Cause: errors.New(exit.text + s.errors.quoted())}
	}
	if err != nil {
		return output, &render.Error{Path: options.Module, Cause: fmt.Errorf("standard output: %w%s", err, s.errors.quoted())}
	}
	output.Warnings = response.warnings()
	items, err := response.objects()
	if err != nil {
		return output, &render.Error{Path: options.Module, Cause: err}
	}
	output.Documents, err = objecttree.Documents(options.Module, items, in.Limits)
	return output, err
}
