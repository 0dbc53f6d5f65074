// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// errDeadline is what reads and writes fail with after their deadline.
var errDeadline = fmt.Errorf("http2: %w", os.ErrDeadlineExceeded)

// heldBack is how much of an answer waits for more. What is complete by then goes out in one packet with its head.
const heldBack = 4 << 10

// answer is what a handler has said.
type answer struct {
	header   http.Header
	status   int
	fields   []field // the header when WriteHeader was called
	length   int64   // Content-Length; -1: none
	trailers []string
	written  int64
	held     []byte
	sentHead bool
}

type field struct{ name, value string }

// begin makes an answer that nothing was said of.
func (x *exchange) begin() { x.header, x.length = http.Header{}, -1 }

// Header implements http.ResponseWriter.
func (x *exchange) Header() http.Header { return x.header }

// WriteHeader implements http.ResponseWriter. Informational answers are sent at once.
func (x *exchange) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) //nolint:forbidigo // as net/http's do
	}
	if x.status != 0 {
		return
	}
	if status < http.StatusOK {
		x.inform(status)
		return
	}
	x.status = status
	x.fields = make([]field, 0, len(x.header)+4)
	for name, values := range x.header {
		switch {
		case strings.HasPrefix(name, http.TrailerPrefix):
			continue
		case name == "Trailer":
			x.announce(values)
		case name == "Content-Length":
			if !x.measure(values) {
				continue
			}
		}
		x.fields = appendFields(x.fields, name, values)
	}
}

// announce takes the names of fields that follow the body.
func (x *exchange) announce(lists []string) {
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if httpguts.ValidTrailerHeader(name) && !slices.Contains(x.trailers, name) {
				x.trailers = append(x.trailers, name)
			}
		}
	}
}

// measure reads a Content-Length. It reports false for what is none.
func (x *exchange) measure(values []string) bool {
	if len(values) != 1 {
		return false
	}
	length, err := strconv.ParseUint(values[0], 10, 63)
	if err != nil {
		return false
	}
	x.length = int64(length)
	return true
}

// appendFields adds what may be said in HTTP/2.
func appendFields(fields []field, name string, values []string) []field {
	small := lower(name)
	if ofConnection(small) || !validName(small) {
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
func (x *exchange) inform(status int) {
	fields := make([]field, 0, len(x.header))
	for name, values := range x.header {
		if name != "Content-Length" {
			fields = appendFields(fields, name, values)
		}
	}
	x.conn.mu.Lock()
	defer x.conn.mu.Unlock()
	if x.awaitRoom() == nil && !x.sent {
		x.conn.out.pending = x.appendHead(status, fields, false)
		x.conn.flush()
	}
}

// sayContinue asks a client to send the body that it has announced. It does not wait for room, because another
// goroutine of the handler may already be waiting.
func (x *exchange) sayContinue() {
	x.conn.mu.Lock()
	defer x.conn.mu.Unlock()
	if x.err == nil && !x.sent && !x.sentHead {
		x.conn.urge(x.appendHead(http.StatusContinue, nil, false))
		x.conn.flush()
	}
}

// appendHead appends a header to pending and returns the result. The lock is held.
func (x *exchange) appendHead(status int, fields []field, end bool) []byte {
	c := x.conn
	c.enc.open()
	c.enc.add(":status", strconv.Itoa(status))
	for _, f := range fields {
		c.enc.add(f.name, f.value)
	}
	return appendBlock(c.out.buffer(), x.id, c.enc.block.Bytes(), end, c.peerFrame)
}

// Write implements io.Writer.
func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	if !bodyAllowed(x.status) {
		return 0, http.ErrBodyNotAllowed
	}
	x.written += int64(len(p))
	if x.length >= 0 && x.written > x.length {
		return 0, http.ErrContentLength
	}
	if len(x.held)+len(p) <= heldBack {
		x.held = append(x.held, p...)
		return len(p), nil
	}
	return x.push(p, false)
}

// WriteString implements io.StringWriter.
func (x *exchange) WriteString(s string) (int, error) { return x.Write([]byte(s)) }

// Flush implements http.Flusher.
func (x *exchange) Flush() { _ = x.FlushError() }

// FlushError is what http.ResponseController prefers to Flush.
func (x *exchange) FlushError() error {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	_, err := x.push(nil, false)
	return err
}

// push sends what was held back, and p behind it.
func (x *exchange) push(p []byte, end bool) (int, error) {
	var fields []field
	if !x.sentHead {
		fields = x.complement(p, end)
	}
	c := x.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if x.err != nil {
		return 0, x.err
	}
	bodyless := x.req.Method == http.MethodHead || !x.sentHead && end && len(x.held)+len(p) == 0
	if !x.sentHead {
		if err := x.awaitRoom(); err != nil {
			return 0, err
		}
		x.sentHead = true
		c.out.pending = x.appendHead(x.status, fields, bodyless)
		if bodyless {
			x.finishSending()
			c.flush()
		}
	}
	if bodyless {
		x.held = x.held[:0]
		return len(p), nil
	}
	defer c.flush()
	if len(x.held) > 0 || len(p) == 0 {
		if _, err := x.enqueue(x.held, end && len(p) == 0); err != nil {
			return 0, err
		}
		x.held = x.held[:0]
	}
	if len(p) == 0 {
		return 0, nil
	}
	return x.enqueue(p, end)
}

// complement returns the header with what the handler has left to the server. The whole answer is known where it ends with these bytes.
func (x *exchange) complement(p []byte, whole bool) []field {
	fields, body := x.fields, x.held
	if len(body) == 0 {
		body = p
	}
	if whole && x.length < 0 && bodyAllowed(x.status) && (x.req.Method != http.MethodHead || len(body) > 0) {
		fields = append(fields, field{"content-length", strconv.Itoa(len(x.held) + len(p))})
	}
	if _, set := x.header["Content-Type"]; !set && x.header.Get("Content-Encoding") == "" && bodyAllowed(x.status) && len(body) > 0 {
		fields = append(fields, field{"content-type", http.DetectContentType(body)})
	}
	if _, set := x.header["Date"]; !set {
		fields = append(fields, field{"date", time.Now().UTC().Format(http.TimeFormat)})
	}
	return fields
}

// complete ends the answer: the handler has returned.
func (x *exchange) complete() error {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	trailer := x.tail()
	if len(trailer) == 0 {
		if x.sentHead && x.req.Method == http.MethodHead {
			return nil
		}
		_, err := x.push(nil, true)
		return err
	}
	if _, err := x.push(nil, false); err != nil {
		return err
	}
	c := x.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := x.awaitRoom(); err != nil {
		return err
	}
	c.enc.open()
	for _, f := range trailer {
		c.enc.add(f.name, f.value)
	}
	c.out.pending = appendBlock(c.out.buffer(), x.id, c.enc.block.Bytes(), true, c.peerFrame)
	x.finishSending()
	c.flush()
	return nil
}

// tail is what follows the body: what was announced, and what is marked as such. Marked values count more: proxies mark all when not
// all were announced.
func (x *exchange) tail() []field {
	var fields []field
	for _, name := range x.trailers {
		if _, marked := x.header[http.TrailerPrefix+name]; !marked {
			fields = appendFields(fields, name, x.header[name])
		}
	}
	for name, values := range x.header {
		if name, marked := strings.CutPrefix(name, http.TrailerPrefix); marked {
			fields = appendFields(fields, name, values)
		}
	}
	return fields
}
