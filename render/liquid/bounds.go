// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package liquid

import (
	"bytes"
	"context"
	"fmt"

	"github.com/leatdev/leat/render"
)

const (
	// maxItems bounds the values of a list or map that a filter takes or makes, with those in it.
	maxItems = 1 << 17
	// maxDepth bounds lists and maps within one another.
	maxDepth = 100
	// textsOverResult is how many times the text of a result all filters may make.
	textsOverResult = 16
)

// bounds are the resources that one step may still use. The first failure stays: the library
// replaces errors by texts, or by panics.
type bounds struct {
	ctx     context.Context //nolint:containedctx // the library passes none to filters and tags
	most    int64           // bytes of all results
	written int64           // bytes of results
	made    int64           // bytes that filters made
	failure error
}

// check returns the failure so far, which is the context's cause once that ended.
func (b *bounds) check() error {
	if b.failure == nil && b.ctx.Err() != nil {
		b.failure = context.Cause(b.ctx)
	}
	return b.failure
}

// write counts bytes of results.
func (b *bounds) write(size int) error {
	if b.written += int64(size); b.written > b.most {
		return b.exceed(render.LimitText, "the templates write more than %d MiB; split the service", b.most>>20)
	}
	return b.check()
}

// produce counts bytes that a filter makes.
func (b *bounds) produce(size int64) error {
	if b.made += size; size > b.most || b.made > textsOverResult*b.most {
		return b.exceed(render.LimitText, "filters make texts of more than %d MiB; make less of them", b.most>>20)
	}
	return b.check()
}

// exceed records that a limit was exceeded, and returns the failure.
func (b *bounds) exceed(limit render.Limit, format string, args ...any) error {
	if b.failure == nil {
		b.failure = &render.LimitError{Limit: limit, Message: fmt.Sprintf(format, args...)}
	}
	return b.failure
}

// writer collects the text of a template within the bounds.
type writer struct {
	bounds *bounds
	text   bytes.Buffer
}

// Write implements io.Writer.
func (w *writer) Write(text []byte) (int, error) {
	if err := w.bounds.write(len(text)); err != nil {
		return 0, err
	}
	return w.text.Write(text)
}
