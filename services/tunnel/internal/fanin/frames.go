// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"mime"
	"net/http"
)

// framing cuts a feed into events.
type framing int

// The ways in which events follow one another.
const (
	framingNone   framing = iota // not known: not shared
	framingJSON                  // one JSON value after the other, each with a line of its own
	framingLength                // each behind its length, as protobuf has it
)

// framingOf knows the answers that are watches and can be shared.
func framingOf(res *http.Response) framing {
	encoding := res.Header.Get("Content-Encoding")
	if res.ContentLength >= 0 || len(res.Trailer) > 0 || encoding != "" && encoding != "identity" {
		return framingNone
	}
	media, params, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case err != nil:
		return framingNone
	case media == "application/json":
		return framingJSON
	case media == "application/vnd.kubernetes.protobuf" && params["stream"] == "watch":
		return framingLength
	}
	return framingNone
}

// splitter collects what arrives until it is a whole event.
type splitter struct {
	framing framing
	max     int // beyond it a frame is passed on in pieces
	pending []byte
	broken  bool // a piece of a frame was passed on, and the rest is to come
	skip    int  // of a broken frame with a length: what is left of it
}

// add takes bytes and calls emit with each frame in its own memory.
func (s *splitter) add(p []byte, emit func(entry)) {
	if s.framing == framingLength {
		s.addLength(p, emit)
		return
	}
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n') + 1
		if end == 0 {
			s.pending = append(s.pending, p...)
			break
		}
		s.emit(append(s.pending, p[:end]...), false, emit)
		p = p[end:]
	}
	// A server may leave the line's end out, or send it later; nobody waits for it.
	if trimmed := bytes.TrimRight(s.pending, " \t\r"); !s.broken && bytes.HasSuffix(trimmed, []byte("}")) && json.Valid(trimmed) {
		s.emit(s.pending, false, emit)
	}
	s.overflow(emit)
}

func (s *splitter) addLength(p []byte, emit func(entry)) {
	const header = 4
	if s.skip > 0 {
		n := min(s.skip, len(p))
		s.skip -= n
		s.emit(bytes.Clone(p[:n]), s.skip > 0, emit)
		p = p[n:]
	}
	s.pending = append(s.pending, p...)
	for len(s.pending) >= header {
		size := header + int(binary.BigEndian.Uint32(s.pending))
		if len(s.pending) < size {
			if len(s.pending) > s.max {
				s.skip = size - len(s.pending)
			}
			break
		}
		rest := s.pending[size:]
		s.emit(bytes.Clone(s.pending[:size]), false, emit)
		s.pending = bytes.Clone(rest)
	}
	s.overflow(emit)
}

// overflow passes a frame on that is too long to be kept until it is whole.
func (s *splitter) overflow(emit func(entry)) {
	if len(s.pending) > s.max {
		s.emit(s.pending, true, emit)
	}
}

func (s *splitter) emit(data []byte, more bool, emit func(entry)) {
	if cap(data)-len(data) > len(data)/8 {
		data = bytes.Clone(data) // it is kept for long
	}
	e := entry{data: data, more: more, piece: s.broken || more}
	e.filler = s.framing == framingJSON && !e.piece && len(bytes.TrimSpace(data)) == 0
	s.broken, s.pending = more, nil
	emit(e)
}

// rest passes on what is left at the feed's end: no event, but what a watch of one's own would have shown.
func (s *splitter) rest(emit func(entry)) {
	if len(s.pending) > 0 {
		s.broken = true
		s.emit(s.pending, false, emit)
	}
}

// event is what a frame says about itself.
type event struct {
	kind    string // ADDED, BOOKMARK…
	version uint64
	listed  bool // a streamed list ends here
}

// Kinds of events that matter here.
const (
	kindAdded    = "ADDED"
	kindBookmark = "BOOKMARK"
	kindError    = "ERROR"
)

// mayBeBookmark spares lists the parsing: API servers write an event's kind first.
func mayBeBookmark(data []byte) bool {
	return bytes.Contains(data[:min(len(data), len(`{ "type": "BOOKMARK" }`))], []byte(`"BOOKMARK"`))
}

// readEvent reads an event in JSON. ok is false when it has no version that can be compared; one of kind ERROR needs none.
func readEvent(data []byte) (e event, ok bool) {
	var frame struct {
		Type   string `json:"type"`
		Object struct {
			Metadata struct {
				ResourceVersion string `json:"resourceVersion"`
				Annotations     struct {
					Listed string `json:"k8s.io/initial-events-end"`
				} `json:"annotations"`
			} `json:"metadata"`
		} `json:"object"`
	}
	if err := json.Unmarshal(data, &frame); err != nil {
		return event{}, false
	}
	metadata := frame.Object.Metadata
	e = event{kind: frame.Type, version: number(metadata.ResourceVersion)}
	e.listed = e.kind == kindBookmark && metadata.Annotations.Listed == "true"
	return e, e.kind == kindError || e.version > 0
}
