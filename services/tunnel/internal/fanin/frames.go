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

// framing is how a feed is cut into events.
type framing int

// The ways in which events follow one another.
const (
	framingNone   framing = iota // unknown: not shared
	framingJSON                  // one JSON value after the other, each on a line of its own
	framingLength                // each behind its length, as in protobuf
)

// framingOf returns the framing of an answer that is a watch and can be shared, or framingNone.
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

// splitter collects bytes until they are a whole event.
type splitter struct {
	framing  framing
	max      int // a longer frame is passed on in pieces
	pending  []byte
	isBroken bool // a piece of a frame was passed on, and the rest is to come
	skip     int  // bytes that are left of a broken frame with a length
}

// add calls emit with each frame that p completes, in memory of its own.
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
	// A server may omit the end of the line, or send it later. The event must not wait for it.
	trimmed := bytes.TrimRight(s.pending, " \t\r")
	if !s.isBroken && bytes.HasSuffix(trimmed, []byte("}")) && json.Valid(trimmed) {
		s.emit(s.pending, false, emit)
	}
	s.overflow(emit)
}

// addLength is add for frames that begin with their length in four bytes.
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

// overflow passes on the beginning of a frame that is too long to be kept until it is whole.
func (s *splitter) overflow(emit func(entry)) {
	if len(s.pending) > s.max {
		s.emit(s.pending, true, emit)
	}
}

// emit passes on a frame, or a piece of one that continues.
func (s *splitter) emit(data []byte, continues bool, emit func(entry)) {
	if cap(data)-len(data) > len(data)/8 {
		data = bytes.Clone(data) // a history keeps it for long
	}
	e := entry{data: data, continues: continues, isPiece: s.isBroken || continues}
	e.isFiller = s.framing == framingJSON && !e.isPiece && len(bytes.TrimSpace(data)) == 0
	s.isBroken, s.pending = continues, nil
	emit(e)
}

// rest passes on the bytes at the feed's end that are not an event: a watch of the viewer's own
// would have shown them, too.
func (s *splitter) rest(emit func(entry)) {
	if len(s.pending) > 0 {
		s.isBroken = true
		s.emit(s.pending, false, emit)
	}
}

// event holds the parts of a frame that this package reads.
type event struct {
	kind    string // ADDED, BOOKMARK…
	version uint64
}

// Kinds of events that matter here.
const (
	kindAdded    = "ADDED"
	kindBookmark = "BOOKMARK"
	kindError    = "ERROR"
)

// readEvent reads an event in JSON. ok is false if it has no version that can be compared; an event
// of kind ERROR needs none.
func readEvent(data []byte) (e event, ok bool) {
	var frame struct {
		Type   string `json:"type"`
		Object struct {
			Metadata struct {
				ResourceVersion string `json:"resourceVersion"`
			} `json:"metadata"`
		} `json:"object"`
	}
	if err := json.Unmarshal(data, &frame); err != nil {
		return event{}, false
	}
	e = event{kind: frame.Type, version: number(frame.Object.Metadata.ResourceVersion)}
	return e, e.kind == kindError || e.version > 0
}
