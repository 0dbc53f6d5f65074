// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command render is a renderer of one's own: it makes a ConfigMap of each .txt file in the step's
// folder, and gives every object of the step before the cluster's region as a label. Build it with
//
//	GOOS=wasip1 GOARCH=wasm go build -ldflags="-s -w" -o render.wasm .
//
// docs/guides/renderers.md describes what it reads and writes.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// resourceList is the document that the module reads and writes.
type resourceList struct {
	APIVersion     string           `json:"apiVersion"`
	Kind           string           `json:"kind"`
	Items          []map[string]any `json:"items"`
	FunctionConfig *input           `json:"functionConfig,omitempty"`
	Results        []result         `json:"results,omitempty"`
}

// input is Leat's message to the module.
type input struct {
	Spec struct {
		Path   string `json:"path"`
		Config struct {
			Prefix string `json:"prefix"`
		} `json:"config"`
		Parameters struct {
			Values map[string]string `json:"values"`
		} `json:"parameters"`
		Facts struct {
			Cluster struct {
				Labels map[string]string `json:"labels"`
			} `json:"cluster"`
		} `json:"facts"`
	} `json:"spec"`
}

// result is a message for the service's owner.
type result struct {
	Message  string `json:"message"`
	Severity string `json:"severity"`
}

func main() {
	if err := render(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func render() error {
	var list resourceList
	if err := json.NewDecoder(os.Stdin).Decode(&list); err != nil {
		return fmt.Errorf("read the ResourceList: %w", err)
	}
	if list.FunctionConfig == nil {
		return errors.New("the ResourceList has no functionConfig")
	}
	spec := list.FunctionConfig.Spec
	region := spec.Facts.Cluster.Labels["region"]
	if region == "" {
		list.Results = append(list.Results, result{Message: "the cluster has no label region", Severity: "warning"})
	}
	names, err := filepath.Glob(filepath.Join("/src", spec.Path, "*.txt"))
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		list.Items = append(list.Items, configMap(spec.Config.Prefix+strings.TrimSuffix(filepath.Base(name), ".txt"), string(text)))
	}
	for _, item := range list.Items {
		label(item, "region", region)
	}
	list.FunctionConfig = nil
	return json.NewEncoder(os.Stdout).Encode(list)
}

func configMap(name, text string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"text": text},
	}
}

// label sets a label of an object. An empty value sets nothing.
func label(object map[string]any, name, value string) {
	metadata, _ := object["metadata"].(map[string]any)
	if metadata == nil || value == "" {
		return
	}
	labels, _ := metadata["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
		metadata["labels"] = labels
	}
	labels[name] = value
}
