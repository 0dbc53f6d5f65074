// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package renderworker

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/leatdev/leat/render"
)

// A request on the pipes is a head and an input (render.Input.Encode). An answer is a head and an
// output (render.Output.Encode). A head is JSON after its length in four bytes. Both ends are the
// same program, so the format is not versioned.

const (
	// maxHead bounds the bytes of a head.
	maxHead = 1 << 20
	// maxMessage bounds the bytes of an error message, because libraries repeat whole files in some.
	maxMessage = 4 << 10
)

// requestHead begins a request.
type requestHead struct {
	Limits render.Limits `json:"limits"`
}

// answerHead describes the result. At most one of the errors is set.
type answerHead struct {
	Bytes int64              `json:"bytes"`           // of the output that follows
	Error *errorHead         `json:"error,omitempty"` // a *render.Error
	Limit *render.LimitError `json:"limit,omitempty"`
	Other string             `json:"other,omitempty"` // any other error
	Last  bool               `json:"last,omitempty"`  // the worker ends after this answer
}

type errorHead struct {
	Path     string `json:"path"`
	Document int    `json:"document"`
	Message  string `json:"message"`
	// Variables are the names of a *render.VariableError that is the cause, and Object is its object.
	Variables []string `json:"variables,omitempty"`
	Object    string   `json:"object,omitempty"`
}

func headOf(output []byte, err error) answerHead {
	limit, isLimit := errors.AsType[*render.LimitError](err)
	invalid, isInvalid := errors.AsType[*render.Error](err)
	switch {
	case err == nil:
		return answerHead{Bytes: int64(len(output))}
	case isLimit:
		bounded := *limit
		bounded.Message = cut(limit.Message)
		return answerHead{Limit: &bounded}
	case isInvalid:
		head := &errorHead{Path: invalid.Path, Document: invalid.Document, Message: cut(invalid.Cause.Error())}
		if missing, ok := errors.AsType[*render.VariableError](invalid.Cause); ok {
			head.Variables, head.Object = missing.Names, missing.Object
		}
		return answerHead{Error: head}
	default:
		return answerHead{Other: cut(err.Error())}
	}
}

// err returns the error that headOf encoded. Its message may be cut.
func (h answerHead) err() error {
	switch {
	case h.Limit != nil:
		return h.Limit
	case h.Error != nil:
		cause := errors.New(h.Error.Message)
		if len(h.Error.Variables) > 0 {
			cause = &render.VariableError{Object: h.Error.Object, Names: h.Error.Variables}
		}
		return &render.Error{Path: h.Error.Path, Document: h.Error.Document, Cause: cause}
	case h.Other != "":
		return errors.New(h.Other)
	default:
		return nil
	}
}

func cut(message string) string {
	if len(message) > maxMessage {
		return message[:maxMessage] + "…"
	}
	return message
}

func writeHead(w io.Writer, head any) error {
	text, err := json.Marshal(head)
	if err != nil {
		return fmt.Errorf("encode head: %w", err)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// readHead reads a head. It returns io.EOF if the pipe ends before the head.
func readHead(r *bufio.Reader, head any) error {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return err
	}
	bytes := binary.BigEndian.Uint32(length[:])
	if bytes > maxHead {
		return fmt.Errorf("head of %d bytes, want at most %d", bytes, maxHead)
	}
	text := make([]byte, bytes)
	if _, err := io.ReadFull(r, text); err != nil {
		return fmt.Errorf("read head: %w", err)
	}
	if err := json.Unmarshal(text, head); err != nil {
		return fmt.Errorf("read head: %w", err)
	}
	return nil
}
