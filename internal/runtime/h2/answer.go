// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// heldBack is how much of an answer waits for more. An answer that is complete by then goes out in
// one packet with its head.
const heldBack = 4 << 10

// answer is the answer that a handler writes, an http.ResponseWriter. It belongs to the handler's
// goroutine, except sayContinue, which the goroutine that reads the request's body may call.
type answer struct {
	to       *stream
	isToHead bool // the request's method is HEAD: no body is sent

	header   http.Header
	status   int      // zero before WriteHeader
	fields   []field  // the header when WriteHeader was called
	length   int64    // Content-Length; -1 if there is none
	trailers []string // announced names
	written  int64
	held     []byte
	sentHead bool // the connection's lock guards it
}

// field is a field of a header, with its name in lower case.
type field struct{ name, value string }

func (a *answer) initAnswer(to *stream, method string) {
	a.to, a.isToHead = to, method == http.MethodHead
	a.header, a.length = http.Header{}, -1
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter. Informational answers are sent at once.
func (a *answer) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) //nolint:forbidigo // as net/http's do
	}
	if a.status != 0 {
		return
	}
	if status < http.StatusOK {
		a.inform(status)
		return
	}
	a.status = status
	a.fields = make([]field, 0, len(a.header)+4)
	for name, values := range a.header {
		switch {
		case strings.HasPrefix(name, http.TrailerPrefix):
			continue
		case name == "Trailer":
			a.announce(values)
		case name == "Content-Length":
			if a.length, _ = contentLength(values); a.length < 0 {
				continue
			}
		}
		a.fields = appendFields(a.fields, name, values)
	}
}

// announce records the names of fields that follow the body.
func (a *answer) announce(lists []string) {
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if httpguts.ValidTrailerHeader(name) && !slices.Contains(a.trailers, name) {
				a.trailers = append(a.trailers, name)
			}
		}
	}
}

// appendFields appends a field's values, without the ones that HTTP/2 does not allow. As with
// net/http, a handler's mistake does not cost the client the answer.
func appendFields(fields []field, name string, values []string) []field {
	small := lower(name)
	if isOfConnection(small) || !isValidName(small) {
		return fields
	}
	for _, value := range values {
		if httpguts.ValidHeaderFieldValue(value) {
			fields = append(fields, field{small, value})
		}
	}
	return fields
}

// inform sends an informational answer.
func (a *answer) inform(status int) {
	fields := make([]field, 0, len(a.header))
	for name, values := range a.header {
		if name != "Content-Length" {
			fields = appendFields(fields, name, values)
		}
	}
	m := a.to.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.to.awaitHeaderTurnLocked() == nil && !a.to.out.isDone {
		m.out.pending = a.withHeadLocked(status, fields, false)
		m.out.flushLocked()
	}
}

// sayContinue asks a client to send the body that it has announced. It does not wait for room,
// because another goroutine of the handler may already be waiting.
func (a *answer) sayContinue() {
	m := a.to.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.to.err == nil && !a.to.out.isDone && !a.sentHead {
		m.out.urgeLocked(a.withHeadLocked(http.StatusContinue, nil, false))
		m.out.flushLocked()
	}
}

// withHeadLocked returns the pending output with the head of an answer.
func (a *answer) withHeadLocked(status int, fields []field, end bool) []byte {
	out := &a.to.mux.out
	out.encoder.begin()
	out.encoder.add(":status", strconv.Itoa(status))
	for _, f := range fields {
		out.encoder.add(f.name, f.value)
	}
	return out.withHeader(a.to.id, end)
}

// Write implements io.Writer. Up to heldBack bytes wait for more, or for the end of the answer.
func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if !allowsBody(a.status) {
		return 0, http.ErrBodyNotAllowed
	}
	a.written += int64(len(p))
	if a.length >= 0 && a.written > a.length {
		return 0, http.ErrContentLength
	}
	if len(a.held)+len(p) <= heldBack {
		a.held = append(a.held, p...)
		return len(p), nil
	}
	return a.push(p, false)
}

// WriteString implements io.StringWriter.
func (a *answer) WriteString(s string) (int, error) { return a.Write([]byte(s)) }

// Flush implements http.Flusher.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError is the method that http.ResponseController prefers to Flush.
func (a *answer) FlushError() error {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	_, err := a.push(nil, false)
	return err
}

// push sends the head, the bytes that were held back, and p behind them. The head is complete when
// the first bytes leave: fields that the handler has left out are derived from them. An answer
// without a body ends with its head. The last flush writes head and body together.
func (a *answer) push(p []byte, end bool) (int, error) {
	var fields []field
	if !a.sentHead {
		fields = a.complement(p, end)
	}
	s, m := a.to, a.to.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	isBodyless := a.isToHead || !a.sentHead && end && len(a.held)+len(p) == 0
	if !a.sentHead {
		if err := s.awaitHeaderTurnLocked(); err != nil {
			return 0, err
		}
		a.sentHead = true
		m.out.pending = a.withHeadLocked(a.status, fields, isBodyless)
		if isBodyless {
			s.finishSendingLocked()
			m.out.flushLocked()
		}
	}
	if isBodyless {
		a.held = a.held[:0]
		return len(p), nil
	}
	defer m.out.flushLocked()
	if len(a.held) > 0 || len(p) == 0 {
		if _, err := s.enqueueLocked(a.held, end && len(p) == 0); err != nil {
			return 0, err
		}
		a.held = a.held[:0]
	}
	if len(p) == 0 {
		return 0, nil
	}
	return s.enqueueLocked(p, end)
}

// complement returns the header with the fields that the handler has left to the server. If the
// answer ends with p, all of it is known.
func (a *answer) complement(p []byte, end bool) []field {
	fields, body := a.fields, a.held
	if len(body) == 0 {
		body = p
	}
	if end && a.length < 0 && allowsBody(a.status) && (!a.isToHead || len(body) > 0) {
		fields = append(fields, field{"content-length", strconv.Itoa(len(a.held) + len(p))})
	}
	canDetect := len(body) > 0 && allowsBody(a.status) && a.header.Get("Content-Encoding") == ""
	if _, set := a.header["Content-Type"]; !set && canDetect {
		fields = append(fields, field{"content-type", http.DetectContentType(body)})
	}
	if _, set := a.header["Date"]; !set {
		fields = append(fields, field{"date", time.Now().UTC().Format(http.TimeFormat)})
	}
	return fields
}

// complete ends the answer after the handler has returned. A small answer of which nothing was sent
// leaves here as a whole, with its length. A trailer is a header behind the body, and so waits for
// its turn like the head.
func (a *answer) complete() error {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	trailer := a.trailer()
	if len(trailer) == 0 {
		if a.sentHead && a.isToHead {
			return nil
		}
		_, err := a.push(nil, true)
		return err
	}
	if _, err := a.push(nil, false); err != nil {
		return err
	}
	m := a.to.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := a.to.awaitHeaderTurnLocked(); err != nil {
		return err
	}
	m.out.encoder.begin()
	for _, f := range trailer {
		m.out.encoder.add(f.name, f.value)
	}
	a.to.sendTrailerLocked()
	return nil
}

// trailer returns the fields that follow the body: announced ones, and fields whose names have
// http.TrailerPrefix. The latter replace the former, since proxies use the prefix for all fields if
// not all were announced.
func (a *answer) trailer() []field {
	var fields []field
	for _, name := range a.trailers {
		if _, isMarked := a.header[http.TrailerPrefix+name]; !isMarked {
			fields = appendFields(fields, name, a.header[name])
		}
	}
	for name, values := range a.header {
		if name, isMarked := strings.CutPrefix(name, http.TrailerPrefix); isMarked {
			fields = appendFields(fields, name, values)
		}
	}
	return fields
}
