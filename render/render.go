// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package render turns the files of a bundle into Kubernetes objects.
//
// It does not use a cluster, the network, the disk or any program. The same files yield the same
// objects wherever it runs, in the agent and on a developer's machine. Limits bound the content
// that committers write. Plain manifests are read in the calling process. Kustomizations are built
// behind the port Builder, because kustomize can be neither interrupted nor bounded from inside its
// process.
package render

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/syncpolicy"
)

// Renderer is a way to make objects from a folder.
type Renderer = syncpolicy.Renderer

// The renderers.
const (
	Auto      = syncpolicy.RenderAuto
	Plain     = syncpolicy.RenderPlain
	Kustomize = syncpolicy.RenderKustomize
)

// Error describes an unusable document of a file. Only a change of the content can repair it, so a
// retry is useless.
type Error struct {
	// Path is the file or folder inside the bundle.
	Path string
	// Document is the position of the document in its file, from 1. Zero: the error concerns the
	// whole file.
	Document int
	// Cause is what is wrong.
	Cause error
}

// Reason implements reason.ReasonedError: the reason of the cause, if it has one.
func (e *Error) Reason() reason.Reason {
	if cause, ok := errors.AsType[reason.ReasonedError](e.Cause); ok {
		return cause.Reason()
	}
	return reason.ManifestInvalid
}

// Error implements error.
func (e *Error) Error() string {
	if e.Document == 0 {
		return fmt.Sprintf("%s: %v", e.Path, e.Cause)
	}
	return fmt.Sprintf("%s: document %d: %v", e.Path, e.Document, e.Cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Builder builds kustomizations. Implementations are safe for concurrent use.
type Builder interface {
	// Build returns, as YAML, the documents that kustomize makes of a folder of the files. It
	// returns an *Error if only other content helps, a *LimitError if the build exceeded a limit,
	// and the context's cause if ctx ended. Other errors are of the machine, and worth a retry.
	Build(ctx context.Context, files *Files, folder string) ([]byte, error)
}

type waitKey struct{}

// WithWait returns a context for builds that adds to waited how long they wait for their turn, in
// nanoseconds.
func WithWait(ctx context.Context, waited *atomic.Int64) context.Context {
	return context.WithValue(ctx, waitKey{}, waited)
}

// AddWait records that a build has waited for its turn. Contexts without WithWait drop it.
func AddWait(ctx context.Context, wait time.Duration) {
	if waited, ok := ctx.Value(waitKey{}).(*atomic.Int64); ok {
		waited.Add(int64(wait))
	}
}

// Engine renders bundles. It is safe for concurrent use.
type Engine struct {
	// Builder builds kustomizations. Nil: kustomizations are an error.
	Builder Builder
	// Limits bound each call of Objects.
	Limits Limits
}

// Object is an object and its place in the bundle.
type Object struct {
	*unstructured.Unstructured

	// Path is the file or kustomization that contains the object, Document its position there, from
	// 1.
	Path     string
	Document int
}

// Origin describes the object's place.
func (o Object) Origin() string {
	return fmt.Sprintf("%s, document %d", o.Path, o.Document)
}

// Objects renders the folder of files ("" or "." means all of them), and replaces the variables of
// s. A nil s leaves texts as they are. The objects come in the order of the files, or in the order
// kustomize gives them. Every object has apiVersion, kind and a name. An empty result is not an
// error: the code that deletes objects decides whether a service may become empty. Errors are of
// type *Error or *LimitError, and those of a Builder are passed on. An error about missing
// variables has a *VariableError in its chain, and one about a limit a *LimitError.
func (e *Engine) Objects(
	ctx context.Context, files *Files, folder string, renderer Renderer, s *Substitution,
) ([]Object, error) {
	folder, err := files.folder(folder)
	if err != nil {
		return nil, err
	}
	p := parser{budget: newBudget(e.Limits), substitution: s}
	if renderer == Kustomize || renderer == Auto && kustomization(files, folder) != "" {
		return e.kustomize(ctx, files, folder, p)
	}
	p.quotes = true
	return plain(files, folder, p)
}

func (e *Engine) kustomize(ctx context.Context, files *Files, folder string, p parser) ([]Object, error) {
	if e.Builder == nil {
		return nil, errors.New("this renderer cannot build kustomizations")
	}
	name := kustomization(files, folder)
	if name == "" {
		return nil, noKustomization(folder)
	}
	text, err := e.Builder.Build(ctx, files, folder)
	if err != nil {
		return nil, err
	}
	objects, err := p.parse("result of kustomize build", text)
	if err != nil {
		return nil, &Error{Path: name, Cause: err}
	}
	for i := range objects {
		objects[i].Path = name + " as built"
	}
	return objects, nil
}

func plain(files *Files, folder string, p parser) ([]Object, error) {
	if err := files.checkLinks(folder); err != nil {
		return nil, err
	}
	var all []Object
	for _, name := range files.manifests(folder) {
		objects, err := p.parse(name, files.content[name])
		if err != nil {
			return nil, files.recognize(name, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}

// checkLinks returns an error about a link to nothing in a folder of plain manifests, if the link
// may stand for a manifest or a folder of them. Without the error its objects would be missing, and
// pruned. Links that are named like other files do not matter.
func (f *Files) checkLinks(folder string) error {
	for _, link := range slices.Sorted(maps.Keys(f.dangling)) {
		isOther := path.Ext(link) != "" && !isManifest(link)
		if isOther || !isBelow(link, folder) || f.except != "" && isBelow(link, f.except) {
			continue
		}
		return &Error{Path: link, Cause: fmt.Errorf("is a symbolic link to %s, which is not in the bundle; add that to the repository and the "+
			"source's selection, or leave the link out with the source's exclude", f.dangling[link])}
	}
	return nil
}

// manifests lists the files of a folder that are read as manifests. It omits a symbolic link to a
// file in the same folder: its objects would appear twice.
func (f *Files) manifests(folder string) []string {
	var names []string
	for name := range f.content {
		if !isBelow(name, folder) || !isManifest(name) || f.except != "" && isBelow(name, f.except) {
			continue
		}
		if target, linked := f.origin[name]; linked && isBelow(target, folder) && isManifest(target) {
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
