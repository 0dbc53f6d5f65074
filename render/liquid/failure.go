// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package liquid

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/osteele/liquid"

	"github.com/leatdev/leat/render"
)

const (
	// maxMessage bounds the bytes of a message, which may hold a whole template.
	maxMessage = 1 << 10
	// maxQuote bounds the bytes of a line in a message.
	maxQuote = 120
)

// preamble begins the library's messages.
var preamble = regexp.MustCompile(`^(Liquid error( \(line \d+\))?: )+`)

// explain returns an error of the library with the template and the line.
func (r *run) explain(name string, err liquid.SourceError) error {
	if failure := r.failed(name); failure != nil {
		return failure
	}
	var cause error = err
	for cause != nil {
		if own, isOwn := cause.(*render.Error); isOwn { //nolint:errorlint // causes do not wrap: each is asked for its own
			return own // of a template that this one includes
		}
		source, hasCause := cause.(interface{ Cause() error })
		if !hasCause {
			break
		}
		cause = source.Cause()
	}
	message := strings.TrimSuffix(preamble.ReplaceAllString(err.Error(), ""), " in "+name)
	place, line := name, err.LineNumber()
	if line > 0 {
		place = fmt.Sprintf("%s:%d", name, line)
		message += r.quote(name, line)
	}
	return &render.Error{Path: place, Cause: errors.New(shortened(message))}
}

// quote returns a line of a template, for the end of a message.
func (r *run) quote(name string, line int) string {
	source, _ := r.in.Files.Get(name)
	for text := range bytes.Lines(source) {
		if line--; line == 0 {
			return fmt.Sprintf(", in %q", strings.ToValidUTF8(string(bytes.TrimSpace(text[:min(len(text), maxQuote)])), ""))
		}
	}
	return ""
}

// explainPanic returns an error about a panic of the library.
func (r *run) explainPanic(name string, failure any) error {
	if err := r.failed(name); err != nil {
		return err
	}
	text := fmt.Sprint(failure)
	if wrapped, ok := failure.(interface{ Cause() error }); ok {
		text = fmt.Sprint(wrapped.Cause()) // without the stack
	}
	return &render.Error{Path: name, Cause: errors.New(shortened(text))}
}

// failed returns what ended the step, with the template as its place.
func (r *run) failed(name string) error {
	failure := r.bounds.failure
	if limit, isLimit := errors.AsType[*render.LimitError](failure); isLimit && limit.Path == "" {
		limit.Path = name
	}
	return failure
}

func shortened(text string) string {
	text = strings.ToValidUTF8(text, "")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}
