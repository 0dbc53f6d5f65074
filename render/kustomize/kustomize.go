// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package kustomize builds kustomizations as kubectl apply -k does, without everything that reaches
// out of the service's tree: remote references, plugins, programs and Helm charts.
package kustomize

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/render"
)

// mount is the bundle's folder in kustomize's file system. It is not the root, so a path that
// leaves the bundle leads to a missing file instead of back into the bundle.
const mount = "/bundle"

// kustomizeState serialises builds. It does not guard state of this package: kustomize keeps the
// OpenAPI schema of the current build in package-level variables, so two builds in one process
// would read each other's.
var kustomizeState sync.Mutex

// The label that buildMetadata: [managedByLabel] makes. In a program other than kustomize the library
// does not know its version, and its label is one that the API server refuses. TestEqualToKustomize
// compares the version with the program's.
const (
	managedBy      = "app.kubernetes.io/managed-by"
	unknownProgram = "kustomize-(devel)"
	programName    = "kustomize-v5.8.2"
)

// kustomization returns the kustomization file of a folder, or "".
func kustomization(files *render.Files, folder string) string {
	for _, base := range konfig.RecognizedKustomizationFileNames() {
		name := path.Join(folder, base)
		if _, ok := files.Get(name); ok {
			return name
		}
	}
	return ""
}

func noKustomization(folder string) error {
	return &render.Error{Path: cmp.Or(folder, "."), Cause: errors.New("holds no kustomization.yaml")}
}

// Renderer builds kustomizations in the calling process. It checks everything that can be checked
// beforehand. It does not bound memory or time, and a build cannot be interrupted. A process that
// uses it for untrusted content must be limited from outside, must not have git in its PATH, and
// must reject requests of net/http's default transport. The agent's render worker is such a
// process.
type Renderer struct{}

var _ render.StepRenderer = Renderer{}

// previousFile holds the objects of the step before. It begins with a dot, and no file of a bundle
// is hidden by it: RenderStep takes another name if there is one.
const previousFile = ".leat-previous.yaml"

// RenderStep implements render.StepRenderer. It checks ctx only before it begins.
func (Renderer) RenderStep(ctx context.Context, in render.StepInput) (render.StepOutput, error) {
	if ctx.Err() != nil {
		return render.StepOutput{}, context.Cause(ctx)
	}
	files, name := in.Files, kustomization(in.Files, in.Folder)
	if name == "" {
		return render.StepOutput{}, noKustomization(in.Folder)
	}
	if in.Step.FromPrevious {
		var err error
		if files, err = withPrevious(files, name, in.Previous); err != nil {
			return render.StepOutput{}, err
		}
	}
	limits := in.Limits.WithDefaults()
	if err := checkFiles(files, limits); err != nil {
		return render.StepOutput{}, err
	}
	if err := checkReferences(files, in.Folder); err != nil {
		return render.StepOutput{}, err
	}
	documents, err := build(files, in.Folder, name, limits)
	if limit := new(render.LimitError); errors.As(err, &limit) {
		return render.StepOutput{}, limit
	}
	if err != nil {
		return render.StepOutput{}, &render.Error{Path: name, Cause: err}
	}
	return render.StepOutput{Documents: documents}, nil
}

// withPrevious returns the files with the objects of the step before as the first resource of the
// kustomization name.
func withPrevious(files *render.Files, name string, previous []render.Object) (*render.Files, error) {
	base := previousFile
	for {
		if _, taken := files.Get(path.Join(path.Dir(name), base)); !taken {
			break
		}
		base = "." + base
	}
	var objects bytes.Buffer
	for _, o := range previous {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return nil, fmt.Errorf("write objects of the step before: %w", err)
		}
		objects.WriteString("---\n")
		objects.Write(text)
	}
	content, _ := files.Get(name)
	k, err := decodeKustomization(content)
	if err != nil {
		return nil, &render.Error{Path: name, Document: 1, Cause: err}
	}
	k.Resources = slices.Insert(k.Resources, 0, base)
	text, err := yaml.Marshal(k)
	if err != nil {
		return nil, fmt.Errorf("write kustomization: %w", err)
	}
	return files.With(map[string][]byte{name: text, path.Join(path.Dir(name), base): objects.Bytes()}), nil
}

// checkFiles returns a *LimitError about a file that grows too large by its aliases. Kustomize may
// read any file as YAML.
func checkFiles(files *render.Files, limits render.Limits) error {
	for _, name := range files.Below("") {
		content, _ := files.Get(name)
		if limit := new(render.LimitError); errors.As(render.CheckAliases(content, limits.Text), &limit) {
			limit.Path = name
			return limit
		}
	}
	return nil
}

// build returns the objects of the kustomization name, which is in folder, in kustomize's order.
func build(files *render.Files, folder, name string, limits render.Limits) ([]render.Document, error) {
	kustomizeState.Lock()
	defer kustomizeState.Unlock()
	clean := openapi.GetSchemaVersion()
	defer func() {
		if openapi.GetSchemaVersion() != clean { // or the next build, of another service, would merge lists by this schema
			openapi.ResetOpenAPI()
		}
	}()
	result, err := krusty.MakeKustomizer(options()).Run(newFileSystem(files), path.Join(mount, folder))
	if err != nil {
		return nil, fmt.Errorf("kustomize build: %s", strings.ReplaceAll(err.Error(), mount+"/", ""))
	}
	var documents []render.Document
	total := int64(0)
	for i, resource := range result.Resources() {
		if labels := resource.GetLabels(); labels[managedBy] == unknownProgram {
			labels[managedBy] = programName
			if err := resource.SetLabels(labels); err != nil {
				return nil, fmt.Errorf("write result: %w", err)
			}
		}
		// The program would turn this text into YAML, and Leat would turn that into JSON again.
		text, err := resource.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("write result: %w", err)
		}
		if total += int64(len(text)); total > limits.Text {
			return nil, &render.LimitError{
				Path: name, Limit: render.LimitText,
				Message: fmt.Sprintf("the result of kustomize build has more than %d MiB; split the service", limits.Text>>20),
			}
		}
		documents = append(documents, render.Document{Path: name + " as built", Text: text, Position: i + 1, IsEncoded: true})
	}
	return documents, nil
}

// options disable everything that reaches out of the bundle: plugins, programs, containers, Helm.
// Files may be named anywhere in the bundle, not only below the kustomization, because the bundle
// is the boundary.
func options() *krusty.Options {
	o := krusty.MakeDefaultOptions()
	o.PluginConfig = types.DisabledPluginConfig()
	o.LoadRestrictions = types.LoadRestrictionsNone
	o.Reorder = krusty.ReorderOptionUnspecified // as the program: its own order, unless sortOptions changes it
	return o
}
