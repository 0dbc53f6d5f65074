// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package render turns the files of a service's sources into Kubernetes objects.
//
// It does not use a cluster, the network, the disk or any program. Equal inputs yield equal objects
// wherever it runs, in the agent and on a developer's machine. Limits bound the content that
// committers write.
//
// An [Engine] carries out a list of steps. It reads plain manifests itself; every other kind of
// step is a [StepRenderer], in a package of its own below this one. Their libraries can be neither
// interrupted nor bounded from inside their process, so the agent runs an Engine with all of them in
// a child process (package renderworker), and one that reads plain manifests in its own. [Split]
// puts the two behind one [Renderer], and a [Memo] remembers what the child process answered.
package render

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
)

// Error describes an unusable document of a file. Only a change of the content can repair it, so a
// retry is useless.
type Error struct {
	// Path is the file or folder inside the tree.
	Path string
	// Document is the position of the document in its file, from 1. Zero: the error concerns the
	// whole file.
	Document int
	// Cause is the defect.
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

// Object is an object and its place in the tree.
type Object struct {
	*unstructured.Unstructured

	// Path is the file, template or kustomization that contains the object, Document its position
	// there, from 1.
	Path     string
	Document int
}

// Origin describes the object's place.
func (o Object) Origin() string {
	return fmt.Sprintf("%s, document %d", o.Path, o.Document)
}

type waitKey struct{}

// WithWait returns a context for renders that adds to waited how long they wait for their turn, in
// nanoseconds.
func WithWait(ctx context.Context, waited *atomic.Int64) context.Context {
	return context.WithValue(ctx, waitKey{}, waited)
}

// AddWait records that a render has waited for its turn. Contexts without WithWait drop it.
func AddWait(ctx context.Context, wait time.Duration) {
	if waited, ok := ctx.Value(waitKey{}).(*atomic.Int64); ok {
		waited.Add(int64(wait))
	}
}
