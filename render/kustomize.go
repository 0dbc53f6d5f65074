// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
)

// mount is the bundle's folder in kustomize's file system. It is not the root, so a path that
// leaves the bundle leads to a missing file instead of back into the bundle.
const mount = "/bundle"

// kustomizeState serialises builds. It does not guard state of this package: kustomize keeps the
// OpenAPI schema of the current build in package-level variables, so two builds in one process
// would read each other's.
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

func noKustomization(folder string) error {
	return &Error{Path: cmp.Or(folder, "."), Cause: errors.New("holds no kustomization.yaml")}
}

// InProcess builds kustomizations in the calling process. It checks everything that can be checked
// beforehand. It does not bound memory or time, and a build cannot be interrupted. A process that
// uses it for untrusted content must be limited from outside, must not have git in its PATH, and
// must reject requests of net/http's default transport. The agent's render worker is such a
// process.
type InProcess struct {
	Limits Limits
}

// Build implements Builder. It checks ctx only before it begins.
func (b InProcess) Build(ctx context.Context, files *Files, folder string) (text []byte, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	defer func() {
		if failure := recover(); failure != nil { // for example at an empty file under crds
			text, err = nil, &Error{Path: cmp.Or(folder, "."), Cause: fmt.Errorf("kustomize fails at this content: %v", failure)}
		}
	}()
	limits := b.Limits.WithDefaults()
	if err := checkFiles(files, limits); err != nil {
		return nil, err
	}
	if err := checkReferences(files, folder); err != nil {
		return nil, err
	}
	text, err = build(files, folder)
	if err != nil {
		return nil, &Error{Path: kustomization(files, folder), Cause: err}
	}
	if int64(len(text)) > limits.Text {
		return nil, &LimitError{
			Path: kustomization(files, folder), Limit: LimitText,
			Message: fmt.Sprintf("the result of kustomize build has more than %s; split the service", size(limits.Text)),
		}
	}
	return text, nil
}

// checkFiles returns a *LimitError about a file that grows too large by its aliases. Kustomize may
// read any file as YAML.
func checkFiles(files *Files, limits Limits) error {
	for name, content := range files.content {
		if limit := new(LimitError); errors.As(checkAliases(content, limits.Text), &limit) {
			limit.Path = name
			return limit
		}
	}
	return nil
}

// build returns the documents that kustomize writes.
func build(files *Files, folder string) ([]byte, error) {
	kustomizeState.Lock()
	defer kustomizeState.Unlock()
	result, err := krusty.MakeKustomizer(options()).Run(newFileSystem(files), path.Join(mount, folder))
	if err != nil {
		return nil, fmt.Errorf("kustomize build: %s", strings.ReplaceAll(err.Error(), mount+"/", ""))
	}
	text, err := result.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("write result: %w", err)
	}
	return text, nil
}

// options disable everything that reaches out of the bundle: plugins, programs, containers, Helm.
// Files may be named anywhere in the bundle, not only below the kustomization, because the bundle
// is the boundary.
func options() *krusty.Options {
	o := krusty.MakeDefaultOptions()
	o.PluginConfig = types.DisabledPluginConfig()
	o.LoadRestrictions = types.LoadRestrictionsNone
	return o
}
