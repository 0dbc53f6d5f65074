// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package renderstepwire converts render steps to what they are on the wire, and back. It does not
// check them except for one thing: a step or a field that this version does not know is an error,
// because a service without it would be another service.
package renderstepwire

import (
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/enumname"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// Steps returns the steps of messages. The error is a *fielderr.Error whose path begins at the list,
// which is called field.
func Steps(field string, messages []*typev1.RenderStep) ([]renderstep.Step, error) {
	var steps []renderstep.Step
	for i, m := range messages {
		if isUnknown(m.ProtoReflect()) {
			return nil, fielderr.New(fielderr.Indexed(field, i), "asks for something that this version does not know")
		}
		steps = append(steps, step(m))
	}
	return steps, nil
}

// Messages returns the messages of steps: the reverse of Steps.
func Messages(steps []renderstep.Step) []*typev1.RenderStep {
	var messages []*typev1.RenderStep
	for _, s := range steps {
		messages = append(messages, message(s))
	}
	return messages
}

// isUnknown reports whether the message or one below it has a field or an enum's value that this
// version does not know.
func isUnknown(m protoreflect.Message) bool {
	unknown := len(m.GetUnknown()) > 0
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap():
		case field.Enum() != nil && !field.IsList():
			unknown = unknown || field.Enum().Values().ByNumber(value.Enum()) == nil
		case field.Message() != nil && field.IsList():
			for i := range value.List().Len() {
				unknown = unknown || isUnknown(value.List().Get(i).Message())
			}
		case field.Message() != nil:
			unknown = unknown || isUnknown(value.Message())
		}
		return !unknown
	})
	return unknown
}

func step(m *typev1.RenderStep) renderstep.Step {
	s := renderstep.Step{Path: m.GetPath(), FromPrevious: m.GetFromPrevious(), Substitute: m.Substitute}
	switch r := m.GetRenderer().(type) {
	case *typev1.RenderStep_Plain:
		s.Renderer = renderstep.Plain
	case *typev1.RenderStep_Kustomize:
		s.Renderer = renderstep.Kustomize
	case *typev1.RenderStep_Helm:
		s.Renderer, s.Helm = renderstep.Helm, helm(r.Helm)
	case *typev1.RenderStep_Liquid:
		s.Renderer, s.Liquid = renderstep.Liquid, &renderstep.LiquidOptions{FilesOnly: r.Liquid.GetFilesOnly()}
	case *typev1.RenderStep_Jsonnet:
		s.Renderer = renderstep.Jsonnet
		s.Jsonnet = &renderstep.JsonnetOptions{
			File: r.Jsonnet.GetFile(), LibraryPaths: r.Jsonnet.GetLibraryPaths(), Arguments: r.Jsonnet.GetArguments(),
		}
	case *typev1.RenderStep_Cue:
		s.Renderer = renderstep.CUE
		s.CUE = &renderstep.CUEOptions{Expression: r.Cue.GetExpression(), Package: r.Cue.GetPackage(), Tags: r.Cue.GetTags()}
	case *typev1.RenderStep_Wasm:
		s.Renderer = renderstep.WASM
		s.WASM = &renderstep.WASMOptions{
			Module: r.Wasm.GetModule(), Config: Tree(r.Wasm.GetConfig()), AllowClock: r.Wasm.GetAllowClock(), AllowRandom: r.Wasm.GetAllowRandom(),
		}
	}
	return s
}

func helm(m *typev1.HelmStep) *renderstep.HelmOptions {
	o := &renderstep.HelmOptions{
		ReleaseName: m.GetReleaseName(), ValuesFiles: m.GetValuesFiles(), Values: Tree(m.GetValues()), Parameters: m.GetParameters(),
		SkipSchema: m.GetSkipSchema(), SkipTests: m.GetSkipTests(), SkipHooks: m.GetSkipHooks(), FactsAt: m.GetFactsAt(),
		Installed: m.GetInstalled(),
	}
	switch m.GetCrds() {
	case typev1.CrdPolicy_CRD_POLICY_CREATE:
		o.CRDs = renderstep.CRDsCreate
	case typev1.CrdPolicy_CRD_POLICY_SKIP:
		o.CRDs = renderstep.CRDsSkip
	case typev1.CrdPolicy_CRD_POLICY_UNSPECIFIED, typev1.CrdPolicy_CRD_POLICY_APPLY:
	}
	for _, r := range m.GetLookup() {
		o.Lookup = append(o.Lookup, renderstep.LookupRule{
			APIVersion: r.GetApiVersion(), Kind: r.GetKind(), Namespace: r.GetNamespace(), Name: r.GetName(),
		})
	}
	return o
}

func message(s renderstep.Step) *typev1.RenderStep {
	m := &typev1.RenderStep{Path: s.Path, FromPrevious: s.FromPrevious, Substitute: s.Substitute}
	switch s.Renderer {
	case renderstep.Auto:
	case renderstep.Plain:
		m.Renderer = &typev1.RenderStep_Plain{Plain: &typev1.PlainStep{}}
	case renderstep.Kustomize:
		m.Renderer = &typev1.RenderStep_Kustomize{Kustomize: &typev1.KustomizeStep{}}
	case renderstep.Helm:
		m.Renderer = &typev1.RenderStep_Helm{Helm: helmMessage(orZero(s.Helm))}
	case renderstep.Liquid:
		m.Renderer = &typev1.RenderStep_Liquid{Liquid: &typev1.LiquidStep{FilesOnly: orZero(s.Liquid).FilesOnly}}
	case renderstep.Jsonnet:
		o := orZero(s.Jsonnet)
		m.Renderer = &typev1.RenderStep_Jsonnet{Jsonnet: &typev1.JsonnetStep{File: o.File, LibraryPaths: o.LibraryPaths, Arguments: o.Arguments}}
	case renderstep.CUE:
		o := orZero(s.CUE)
		m.Renderer = &typev1.RenderStep_Cue{Cue: &typev1.CueStep{Expression: o.Expression, Package: o.Package, Tags: o.Tags}}
	case renderstep.WASM:
		o := orZero(s.WASM)
		m.Renderer = &typev1.RenderStep_Wasm{Wasm: &typev1.WasmStep{
			Module: o.Module, Config: Struct(o.Config), AllowClock: o.AllowClock, AllowRandom: o.AllowRandom,
		}}
	}
	return m
}

func helmMessage(o renderstep.HelmOptions) *typev1.HelmStep {
	m := &typev1.HelmStep{
		ReleaseName: o.ReleaseName, ValuesFiles: o.ValuesFiles, Values: Struct(o.Values), Parameters: o.Parameters,
		Crds:       enumname.Value[typev1.CrdPolicy](string(o.CRDs)),
		SkipSchema: o.SkipSchema, SkipTests: o.SkipTests, SkipHooks: o.SkipHooks, FactsAt: o.FactsAt,
		Installed: o.Installed,
	}
	for _, r := range o.Lookup {
		m.Lookup = append(m.Lookup, &typev1.LookupRule{ApiVersion: r.APIVersion, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name})
	}
	return m
}

func orZero[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

// Tree returns the fields of a message; nil if it has none.
func Tree(m *structpb.Struct) map[string]any {
	if len(m.GetFields()) == 0 {
		return nil
	}
	return m.AsMap()
}

// Struct is the reverse of Tree. A tree comes from a message or from its JSON, so it holds
// nothing that a message cannot.
func Struct(fields map[string]any) *structpb.Struct {
	if len(fields) == 0 {
		return nil
	}
	m, err := structpb.NewStruct(fields)
	if err != nil {
		return nil
	}
	return m
}
