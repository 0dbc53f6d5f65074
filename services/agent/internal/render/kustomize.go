// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"path"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// mount is where the bundle lies in kustomize's file system. It is not the root, so that a path that leaves the bundle
// leads to nothing instead of back into it.
const mount = "/bundle"

// kustomizeState serialises builds. It guards no state of ours: kustomize keeps the OpenAPI schema of the current build in
// package-level variables, so two builds in one process would read each other's.
var kustomizeState sync.Mutex

// kustomization returns the kustomization file of a folder, or "".
func kustomization(files *Files, folder string) string {
	for _, base := range konfig.RecognizedKustomizationFileNames() {
		name := path.Join(folder, base)
		if _, ok := files.content[name]; ok {
			return name
		}
	}
	return ""
}

func kustomize(files *Files, folder string, s *Substitution) ([]*unstructured.Unstructured, error) {
	if err := checkReferences(files, folder); err != nil {
		return nil, err
	}
	text, err := build(files, folder)
	if err != nil {
		return nil, &Error{Path: kustomization(files, folder), Cause: err}
	}
	content, err := parser{substitution: s}.parse("result of kustomize build", text)
	if err != nil {
		return nil, &Error{Path: kustomization(files, folder), Cause: err}
	}
	return content, nil
}

// build returns the documents that kustomize writes.
func build(files *Files, folder string) ([]byte, error) {
	disk := filesys.MakeFsInMemory()
	for name, content := range files.content {
		if err := disk.WriteFile(path.Join(mount, name), content); err != nil {
			return nil, fmt.Errorf("copy %s: %w", name, err)
		}
	}
	kustomizeState.Lock()
	defer kustomizeState.Unlock()
	result, err := krusty.MakeKustomizer(options()).Run(disk, path.Join(mount, folder))
	if err != nil {
		return nil, fmt.Errorf("kustomize build: %s", strings.ReplaceAll(err.Error(), mount+"/", ""))
	}
	text, err := result.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("write result: %w", err)
	}
	return text, nil
}

// options disable everything that would reach out of the bundle: plugins, programs, containers, Helm. Files may be named
// anywhere in the bundle, not only below the kustomization: the bundle is the boundary.
func options() *krusty.Options {
	o := krusty.MakeDefaultOptions()
	o.PluginConfig = types.DisabledPluginConfig()
	o.LoadRestrictions = types.LoadRestrictionsNone
	return o
}
