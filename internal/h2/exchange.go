// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// exchange is a server's stream: a request, and the answer that its handler writes. It is the handler's http.ResponseWriter, and is for
// the handler's goroutine alone, but for the request's body and what the lock guards.
type exchange struct {
	stream

	server   *Server
	handler  http.Handler
	context  context.Context //nolint:containedctx // it is the request's, which has it, too
	cancel   context.CancelFunc
	req      *http.Request
	returned bool

	answer

	readTimer  *time.Timer
	writeTimer *time.Timer
}

var errMalformed = errors.New("http2: malformed request")

// read makes the request.
func (x *exchange) read(d *decoding, end bool) error {
	pseudo, fields, ok := d.split()
	if !ok {
		return errMalformed
	}
	method, scheme, authority, path, ok := requestLine(pseudo)
	if !ok || !validTarget(method, scheme, authority, path) {
		return errMalformed
	}
	header, trailer := toHeader(fields)
	if !validForRequest(header) {
		return errMalformed
	}
	target := &url.URL{Host: authority}
	uri := authority
	if method != http.MethodConnect {
		var err error
		if target, err = url.ParseRequestURI(path); err != nil {
			return errMalformed
		}
		uri = path
	}
	if cookies := header["Cookie"]; len(cookies) > 1 {
		header["Cookie"] = []string{strings.Join(cookies, "; ")}
	}
	if authority == "" {
		authority = header.Get("Host")
	}
	delete(header, "Host")
	length, err := requestLength(header, end)
	if err != nil {
		return err
	}
	req := &http.Request{
		Method: method, URL: target, RequestURI: uri, Host: authority, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: header, Trailer: trailer, ContentLength: length, RemoteAddr: x.server.remote, Body: http.NoBody,
	}
	if !end {
		expects := httpguts.HeaderValuesContainsToken(header["Expect"], "100-continue")
		if expects {
			delete(header, "Expect")
		}
		req.Body = &requestBody{exchange: x, expects: expects}
	}
	x.req, x.declared = req.WithContext(x.context), length
	x.handler = x.server.params.Handler
	if d.tooLarge() {
		x.handler = http.HandlerFunc(refuseHeader)
	}
	x.begin()
	return nil
}

// refuseHeader answers a request whose header is too large, as net/http does.
func refuseHeader(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
	_, _ = io.WriteString(w, "<h1>HTTP Error 431</h1><p>Request Header Field(s) Too Large</p>")
}

// requestLine reads the pseudo fields of a request, each of which is there once at most.
func requestLine(pseudo []hpack.HeaderField) (method, scheme, authority, path string, ok bool) {
	for _, f := range pseudo {
		var to *string
		switch f.Name {
		case ":method":
			to = &method
		case ":scheme":
			to = &scheme
		case ":authority":
			to = &authority
		case ":path":
			to = &path
		default:
			return "", "", "", "", false
		}
		if *to != "" || f.Value == "" && f.Name != ":authority" {
			return "", "", "", "", false
		}
		*to = f.Value
	}
	return method, scheme, authority, path, true
}

// validTarget holds the pseudo fields against RFC 9113, 8.3.1 and 8.5.
func validTarget(method, scheme, authority, path string) bool {
	if method == http.MethodConnect {
		return scheme == "" && path == "" && authority != ""
	}
	return httpguts.ValidHeaderFieldName(method) && (scheme == "http" || scheme == "https") && validPath(path) &&
		httpguts.ValidHostHeader(authority)
}

// validForRequest holds a header against RFC 9113, 8.2.2.
func validForRequest(header http.Header) bool {
	for _, name := range [...]string{"Connection", "Proxy-Connection", "Transfer-Encoding", "Upgrade", "Keep-Alive"} {
		if _, there := header[name]; there {
			return false
		}
	}
	te := header["Te"]
	return len(te) == 0 || len(te) == 1 && (te[0] == "" || te[0] == "trailers")
}

// requestLength is -1 where the length is not known.
func requestLength(header http.Header, end bool) (int64, error) {
	lengths := header["Content-Length"]
	switch {
	case len(lengths) == 0 && end:
		return 0, nil
	case len(lengths) == 0:
		return -1, nil
	}
	length, err := strconv.ParseUint(lengths[0], 10, 63)
	if err != nil || len(lengths) > 1 {
		return 0, errMalformed
	}
	return int64(length), nil
}

func (*exchange) came()              {}
func (*exchange) removed()           {} // it holds its header until the handler returns
func (*exchange) unwanted()          {}
func (*exchange) satisfied() bool    { return false } // without a client nobody wants the answer
func (x *exchange) ended(error)      { x.cancel() }
func (*exchange) expects(int64) bool { return true }

// short implements owner.
func (x *exchange) short() error {
	return http2.StreamError{StreamID: x.id, Code: http2.ErrCodeProtocol}
}

// fail ends the stream.
func (x *exchange) fail(code http2.ErrCode, err error) {
	x.conn.mu.Lock()
	defer x.conn.mu.Unlock()
	x.reset(code, err)
	x.conn.flushSoon()
}

// requestBody is the body of a request.
type requestBody struct {
	exchange *exchange
	expects  bool // the client waits for "100 Continue"
	read     bool
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	b.want()
	n, err := b.exchange.stream.read(p)
	if errors.Is(err, io.EOF) {
		b.exchange.takeTrailer()
	}
	return n, err
}

// WriteTo implements io.WriterTo. What has come is not copied before it is written.
func (b *requestBody) WriteTo(w io.Writer) (int64, error) {
	b.want()
	n, err := b.exchange.writeTo(w)
	if err == nil {
		b.exchange.takeTrailer()
	}
	return n, err
}

// want has the client send the body, if it waits to be told.
func (b *requestBody) want() {
	if !b.read {
		b.read = true
		if b.expects {
			b.exchange.sayContinue()
		}
	}
}

// takeTrailer gives the trailer of a body that was read to its request.
func (x *exchange) takeTrailer() {
	x.conn.mu.Lock()
	defer x.conn.mu.Unlock()
	for name := range x.req.Trailer {
		if values, ok := x.trailer[name]; ok {
			x.req.Trailer[name] = values
		}
	}
}

// Close implements io.Closer. What still comes is dropped.
func (b *requestBody) Close() error {
	b.exchange.conn.mu.Lock()
	defer b.exchange.conn.mu.Unlock()
	b.exchange.drop()
	return nil
}

// SetReadDeadline implements what http.ResponseController asks for.
func (x *exchange) SetReadDeadline(t time.Time) error {
	x.setTimer(&x.readTimer, t, func() {
		x.expired = errDeadline
		x.readable.Broadcast()
	})
	return nil
}

// SetWriteDeadline implements what http.ResponseController asks for. The stream is reset when the deadline has passed.
func (x *exchange) SetWriteDeadline(t time.Time) error {
	x.setTimer(&x.writeTimer, t, func() {
		x.reset(http2.ErrCodeInternal, errDeadline)
		x.conn.flushSoon()
	})
	return nil
}

// setTimer has call called, with the lock, at a time; never at the zero time.
func (x *exchange) setTimer(timer **time.Timer, t time.Time, call func()) {
	x.conn.mu.Lock()
	defer x.conn.mu.Unlock()
	if *timer != nil {
		(*timer).Stop()
		*timer = nil
	}
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		call()
		return
	}
	var this *time.Timer
	this = time.AfterFunc(left, func() {
		x.conn.mu.Lock()
		defer x.conn.mu.Unlock()
		if *timer == this {
			call()
		}
	})
	*timer = this
}

// stopTimers ends all deadlines. The lock is held.
func (x *exchange) stopTimers() {
	for _, timer := range []**time.Timer{&x.readTimer, &x.writeTimer} {
		if *timer != nil {
			(*timer).Stop()
			*timer = nil
		}
	}
}

// EnableFullDuplex implements what http.ResponseController asks for. A stream's directions are independent anyway.
func (*exchange) EnableFullDuplex() error { return nil }
