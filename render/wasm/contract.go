// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wasm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/facts"
)

const (
	listVersion  = "config.kubernetes.io/v1"
	listGroup    = "config.kubernetes.io/"
	listKind     = "ResourceList"
	inputVersion = "render.leat.dev/v1"
	inputKind    = "Input"
	// maxResults bounds the results that a message lists.
	maxResults = 20
)

// ownAnnotations are the notes of functions for the program that runs them.
var ownAnnotations = []string{"internal.config.kubernetes.io/", "config.kubernetes.io/index", "config.kubernetes.io/path", "config.kubernetes.io/id"}

// encodeRequest returns a module's standard input, and what it tells the module of the facts.
//
// A configuration with apiVersion and kind belongs to an existing KRM function: it is the
// functionConfig itself, and the function is told nothing else.
func encodeRequest(in render.StepInput, options renderstep.WASMOptions) ([]byte, render.Asked, error) {
	expanded, err := in.Variables.Expand("wasm.config", options.Config)
	if err != nil {
		return nil, render.Asked{}, err
	}
	config, _ := expanded.(map[string]any)
	if config == nil {
		config = map[string]any{}
	}
	function, asked := config, render.Asked{}
	_, hasVersion := config["apiVersion"].(string)
	if _, hasKind := config["kind"].(string); !hasKind || !hasVersion {
		asked = render.Asked{Facts: true, APIVersions: true}
		function = map[string]any{
			"apiVersion": inputVersion, "kind": inputKind, "metadata": map[string]any{"name": in.Facts.Service.Name},
			"spec": map[string]any{
				"path": in.Folder, "config": config, "parameters": facts.Parameters(in.Variables),
				"facts": facts.Facts(in.Facts, true), "installed": in.Installed,
			},
		}
	}
	items := make([]any, len(in.Previous))
	for i, object := range in.Previous {
		items[i] = object.Object
	}
	text, err := json.Marshal(map[string]any{"apiVersion": listVersion, "kind": listKind, "items": items, "functionConfig": function})
	if err != nil {
		return nil, render.Asked{}, fmt.Errorf("write ResourceList: %w", err)
	}
	return text, asked, nil
}

// response is the output of a module.
type response struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Items      []map[string]any `json:"items"`
	Results    []result         `json:"results"`
}

// result is a function's finding about the objects.
type result struct {
	Message  string `json:"message"`
	Severity string `json:"severity"`
	File     struct {
		Path string `json:"path"`
		Line int    `json:"line"`
	} `json:"file"`
	Field struct {
		Path string `json:"path"`
	} `json:"field"`
	ResourceRef struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	} `json:"resourceRef"`
}

// decodeResponse reads a module's standard output, in JSON or in YAML.
func decodeResponse(text []byte) (response, error) {
	var r response
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return r, errors.New("is empty, want a ResourceList")
	}
	if text[0] != '{' {
		converted, err := fromYAML(text)
		if err != nil {
			return r, fmt.Errorf("is neither JSON nor YAML: %w; log to the standard error", err)
		}
		text = converted
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // no digit is lost on the way
	if err := decoder.Decode(&r); err != nil {
		return r, fmt.Errorf("is not a ResourceList: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return r, errors.New("has more than one ResourceList; log to the standard error")
	}
	if r.Kind != listKind || !strings.HasPrefix(r.APIVersion, listGroup) {
		return r, fmt.Errorf("is %q of %q, want a ResourceList of %s", r.Kind, r.APIVersion, listVersion)
	}
	return r, nil
}

// fromYAML converts one document without aliases, which could make it arbitrarily large.
func fromYAML(text []byte) ([]byte, error) {
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 || document.Content[0].Kind != yamlv3.MappingNode {
		return nil, errors.New("not a map")
	}
	if hasAlias(&document) {
		return nil, errors.New("aliases are not allowed")
	}
	return yaml.YAMLToJSON(text)
}

func hasAlias(node *yamlv3.Node) bool {
	if node.Kind == yamlv3.AliasNode {
		return true
	}
	for _, child := range node.Content {
		if hasAlias(child) {
			return true
		}
	}
	return false
}

// isError reports whether a result fails the step. A result without a severity does, by the
// specification of KRM functions.
func (r result) isError() bool { return r.Severity == "error" || r.Severity == "" }

// place returns where the problem is, or the module.
func (r result) place(module string) string {
	switch {
	case r.File.Path != "" && r.File.Line > 0:
		return fmt.Sprintf("%s:%d", r.File.Path, r.File.Line)
	case r.File.Path != "":
		return r.File.Path
	}
	return module
}

// text returns the message, with what it is about.
func (r result) text() string {
	about := strings.TrimSpace(r.ResourceRef.Kind + " " + r.ResourceRef.Name)
	if r.Field.Path != "" {
		about = strings.TrimSpace(about + " " + r.Field.Path)
	}
	if about != "" {
		return about + ": " + r.Message
	}
	return r.Message
}

// problem returns the errors among the results, as one.
func (r response) problem(module string) error {
	place, texts := "", []string(nil)
	for _, result := range r.Results {
		if !result.isError() {
			continue
		}
		if len(texts) == 0 {
			place = result.place(module)
		}
		if len(texts) == maxResults {
			texts = append(texts, "…")
			break
		}
		texts = append(texts, result.text())
	}
	if len(texts) == 0 {
		return nil
	}
	message := strings.Join(texts, "; ")
	return &render.Error{Path: place, Cause: errors.New(strings.ToValidUTF8(message[:min(len(message), maxErrors)], ""))}
}

// warnings returns the results that are not errors.
func (r response) warnings() []string {
	var texts []string
	for _, result := range r.Results {
		if !result.isError() && len(texts) < maxResults {
			texts = append(texts, result.text())
		}
	}
	return texts
}

// objects returns the items in JSON, without annotations that are not for the cluster.
func (r response) objects() ([]byte, error) {
	for _, item := range r.Items {
		metadata, _ := item["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		for name := range annotations {
			for _, own := range ownAnnotations {
				if strings.HasPrefix(name, own) {
					delete(annotations, name)
				}
			}
		}
		if annotations != nil && len(annotations) == 0 {
			delete(metadata, "annotations")
		}
	}
	text, err := json.Marshal(map[string]any{"items": r.Items})
	if err != nil {
		return nil, fmt.Errorf("write items: %w", err)
	}
	return text, nil
}
