// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package wire translates between the messages of gitcache's calls and the core, and maps the core's
// errors to codes and reasons. All of it are functions of values. A request's field that is wrong is
// an rpcerr.Field, which names it.
package wire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

const (
	// MaxPage is the most elements of a page.
	MaxPage     = 1000
	defaultPage = 500
	chunkSize   = 256 << 10
)

// Text makes text of a commit fit for the wire, which takes UTF-8 only.
func Text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// PageSize returns how many elements a page has at most.
func PageSize(p *typev1.Page) int {
	if p.GetSize() <= 0 {
		return defaultPage
	}
	return int(min(p.GetSize(), MaxPage))
}

// ParseToken reads a page token into position; an empty token leaves it as it is.
func ParseToken(p *typev1.Page, position any) error {
	if p.GetToken() == "" {
		return nil
	}
	data, err := base64.RawURLEncoding.DecodeString(p.GetToken())
	if err == nil {
		err = json.Unmarshal(data, position)
	}
	if err != nil {
		return rpcerr.Field("page.token", "It is not a token that this listing returned.")
	}
	return nil
}

// FormatToken returns the page token of a position.
func FormatToken(position any) string {
	data, err := json.Marshal(position)
	if err != nil {
		return "" // positions are strings and numbers, which always marshal
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// SendChunks sends a file to its end.
func SendChunks(file io.Reader, sendChunk func([]byte) error) error {
	buffer := make([]byte, chunkSize)
	for {
		n, err := io.ReadFull(file, buffer)
		if n > 0 {
			if err := sendChunk(buffer[:n]); err != nil {
				return fmt.Errorf("send chunk: %w", err)
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read file: %w", err)
		}
	}
}
