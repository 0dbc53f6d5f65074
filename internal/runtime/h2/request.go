// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

// requestLine has the pseudo fields of a request.
type requestLine struct{ method, scheme, authority, path string }

// readRequest returns the request of a header, without a body and with its length, which is -1 if
// it is not known. It fails for a malformed request: what it lets through would become a request of
// HTTP/1.1 behind a proxy, where a field that HTTP/2 does not allow could make one request two.
func readRequest(ctx context.Context, remote string, d *headerDecoder) (*http.Request, error) {
	pseudo, fields, ok := d.split()
	if !ok {
		return nil, errMalformed
	}
	line, ok := readRequestLine(pseudo)
	if !ok || !line.isValid() {
		return nil, errMalformed
	}
	header, trailer := toHeader(fields)
	if !isValidForRequest(header) {
		return nil, errMalformed
	}
	target, uri := &url.URL{Host: line.authority}, line.authority
	if line.method != http.MethodConnect {
		var err error
		if target, err = url.ParseRequestURI(line.path); err != nil {
			return nil, errMalformed
		}
		uri = line.path
	}
	if cookies := header["Cookie"]; len(cookies) > 1 { // clients may split them (RFC 9113, 8.2.3)
		header["Cookie"] = []string{strings.Join(cookies, "; ")}
	}
	if line.authority == "" {
		line.authority = header.Get("Host")
	}
	delete(header, "Host") // net/http has it in the request only
	length, err := readLength(header, d.endsStream)
	if err != nil {
		return nil, err
	}
	req := &http.Request{
		Method: line.method, URL: target, RequestURI: uri, Host: line.authority, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: header, Trailer: trailer, ContentLength: length, RemoteAddr: remote, Body: http.NoBody,
	}
	return req.WithContext(ctx), nil
}

// readRequestLine reads the pseudo fields of a request, each of which may come once. Only the
// authority may be empty.
func readRequestLine(pseudo []hpack.HeaderField) (line requestLine, ok bool) {
	for _, f := range pseudo {
		var to *string
		switch f.Name {
		case ":method":
			to = &line.method
		case ":scheme":
			to = &line.scheme
		case ":authority":
			to = &line.authority
		case ":path":
			to = &line.path
		default:
			return requestLine{}, false
		}
		if *to != "" || f.Value == "" && f.Name != ":authority" {
			return requestLine{}, false
		}
		*to = f.Value
	}
	return line, true
}

// isValid reports whether the pseudo fields obey RFC 9113, 8.3.1 and 8.5.
func (l requestLine) isValid() bool {
	if l.method == http.MethodConnect {
		return l.scheme == "" && l.path == "" && l.authority != ""
	}
	return httpguts.ValidHeaderFieldName(l.method) && (l.scheme == "http" || l.scheme == "https") &&
		isValidPath(l.path) && httpguts.ValidHostHeader(l.authority)
}

// isValidForRequest reports whether a header obeys RFC 9113, 8.2.2.
func isValidForRequest(header http.Header) bool {
	for _, name := range [...]string{"Connection", "Proxy-Connection", "Transfer-Encoding", "Upgrade", "Keep-Alive"} {
		if _, there := header[name]; there {
			return false
		}
	}
	te := header["Te"]
	return len(te) == 0 || len(te) == 1 && (te[0] == "" || te[0] == "trailers")
}

// readLength returns the length of a request's body, or -1 if it is not known.
func readLength(header http.Header, endsStream bool) (int64, error) {
	values := header["Content-Length"]
	length, ok := contentLength(values)
	switch {
	case len(values) > 0 && !ok:
		return 0, errMalformed
	case len(values) == 0 && endsStream:
		return 0, nil
	}
	return length, nil
}

// refuseHeader answers a request whose header is too large, as net/http does.
func refuseHeader(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
	_, _ = io.WriteString(w, "<h1>HTTP Error 431</h1><p>Request Header Field(s) Too Large</p>")
}

// fieldOverhead is how many bytes a field counts beyond its text (RFC 9113, 6.5.2).
const fieldOverhead = 32

// userAgent is net/http's, for requests that do not name one.
const userAgent = "Go-http-client/2.0"

// requestHead is the validated header of a request. It is made before the connection's lock is
// acquired, and encoded with the lock.
type requestHead struct {
	req       *http.Request
	authority string
	path      string
	length    int64
	size      int // about, as HTTP/2 counts it
}

// newRequestHead returns the header of a request. It fails for a request that HTTP/2 cannot
// express, with an error that is the caller's fault and not the connection's.
func newRequestHead(req *http.Request, length int64) (*requestHead, error) {
	authority, err := httpguts.PunycodeHostPort(cmp.Or(req.Host, req.URL.Host))
	if err != nil || !httpguts.ValidHostHeader(authority) {
		return nil, fmt.Errorf("http2: invalid host %q", cmp.Or(req.Host, req.URL.Host))
	}
	if err := validateConnection(req.Header); err != nil {
		return nil, err
	}
	h := &requestHead{req: req, authority: authority, length: length}
	if req.Method != http.MethodConnect {
		h.path = req.URL.RequestURI()
		if !isValidPath(h.path) { // an opaque URL that begins with two slashes contains the scheme
			h.path = strings.TrimPrefix(h.path, req.URL.Scheme+"://"+h.authority)
		}
		if !isValidPath(h.path) {
			return nil, fmt.Errorf("http2: invalid path %q", h.path)
		}
	}
	h.size = 5*fieldOverhead + len(req.Method) + len(h.authority) + len(h.path) + 64
	for name, values := range req.Header {
		if err := validateField(name, values); err != nil {
			return nil, err
		}
		for _, value := range values {
			h.size += fieldOverhead + len(name) + len(value)
		}
	}
	return h, nil
}

// validateConnection refuses fields that ask for something that HTTP/2 does not have. Fields that
// only concern how HTTP/1.1 uses the connection are left out.
func validateConnection(header http.Header) error {
	switch {
	case !isHarmless(header["Upgrade"]):
		return fmt.Errorf("http2: Upgrade %q is not allowed in HTTP/2", header["Upgrade"])
	case !isHarmless(header["Transfer-Encoding"], "chunked"):
		return fmt.Errorf("http2: Transfer-Encoding %q is not allowed in HTTP/2", header["Transfer-Encoding"])
	case !isHarmless(header["Connection"], "close", "keep-alive"):
		return fmt.Errorf("http2: Connection %q is not allowed in HTTP/2", header["Connection"])
	}
	return nil
}

// isHarmless reports whether a field has no values but the known ones.
func isHarmless(values []string, known ...string) bool {
	for _, value := range values {
		if value != "" && !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, value) }) {
			return false
		}
	}
	return true
}

// isValidPath reports whether a request may have this path (RFC 9113, 8.3.1).
func isValidPath(path string) bool { return strings.HasPrefix(path, "/") || path == "*" }

// validateField returns an error for a field that a header may not have. It does not contain the
// value, which may be a secret.
func validateField(name string, values []string) error {
	if _, known := lowerNames[name]; !known && !httpguts.ValidHeaderFieldName(name) {
		return fmt.Errorf("http2: invalid header field name %q", name)
	}
	for _, value := range values {
		if !httpguts.ValidHeaderFieldValue(value) {
			return fmt.Errorf("http2: invalid value of header field %q", name)
		}
	}
	return nil
}

// encode encodes the header. Its only order is that pseudo fields come first.
func (h *requestHead) encode(e *headerEncoder) {
	e.add(":method", cmp.Or(h.req.Method, http.MethodGet))
	e.add(":authority", h.authority)
	if h.req.Method != http.MethodConnect {
		e.add(":scheme", cmp.Or(h.req.URL.Scheme, "http"))
		e.add(":path", h.path)
	}
	agent := userAgent
	for name, values := range h.req.Header {
		small := lower(name)
		switch small {
		case "host", "content-length", "connection", "proxy-connection", "transfer-encoding", "upgrade", "keep-alive":
		case "user-agent":
			agent = ""
			if len(values) > 0 {
				agent = values[0]
			}
		case "te":
			if slices.Contains(values, "trailers") {
				e.add("te", "trailers")
			}
		case "cookie":
			addCookies(e, values)
		default:
			for _, value := range values {
				e.add(small, value)
			}
		}
	}
	if agent != "" {
		e.add("user-agent", agent)
	}
	if h.length > 0 || h.length == 0 && expectsBody(h.req.Method) {
		e.add("content-length", strconv.FormatInt(h.length, 10))
	}
	if len(h.req.Trailer) > 0 { // its names are announced
		e.add("trailer", strings.Join(slices.Sorted(maps.Keys(h.req.Trailer)), ","))
	}
}

// addCookies adds each cookie as a field of its own, so that HPACK compresses unchanged ones (RFC
// 9113, 8.2.3).
func addCookies(e *headerEncoder, values []string) {
	for _, value := range values {
		for crumb := range strings.SplitSeq(value, "; ") {
			e.add("cookie", crumb)
		}
	}
}

// expectsBody reports whether requests with this method usually have a body. Without one they
// announce its length of zero.
func expectsBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}
