// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// fieldOverhead is what a field counts beyond its text (RFC 9113, 6.5.2).
const fieldOverhead = 32

// userAgent is what net/http sends where nobody says anything else.
const userAgent = "Go-http-client/2.0"

// requestHead is the header of a request, which has been looked at.
type requestHead struct {
	req       *http.Request
	authority string
	path      string
	length    int64
	size      int
}

// newRequestHead fails for what cannot be said in HTTP/2.
func newRequestHead(req *http.Request, length int64) (*requestHead, error) {
	authority, err := httpguts.PunycodeHostPort(cmp.Or(req.Host, req.URL.Host))
	if err != nil || !httpguts.ValidHostHeader(authority) {
		return nil, fmt.Errorf("http2: invalid host %q", cmp.Or(req.Host, req.URL.Host))
	}
	if err := validConnection(req.Header); err != nil {
		return nil, err
	}
	h := &requestHead{req: req, authority: authority, length: length}
	if req.Method != http.MethodConnect {
		h.path = req.URL.RequestURI()
		if !validPath(h.path) { // an opaque URL that begins with two slashes has got the scheme
			h.path = strings.TrimPrefix(h.path, req.URL.Scheme+"://"+h.authority)
		}
		if !validPath(h.path) {
			return nil, fmt.Errorf("http2: invalid path %q", h.path)
		}
	}
	h.size = 5*fieldOverhead + len(req.Method) + len(h.authority) + len(h.path) + 64
	for name, values := range req.Header {
		if err := validField(name, values); err != nil {
			return nil, err
		}
		for _, value := range values {
			h.size += fieldOverhead + len(name) + len(value)
		}
	}
	return h, nil
}

// validConnection refuses what asks for something that HTTP/2 does not have. What only says how HTTP/1.1 is to go on is left out.
func validConnection(header http.Header) error {
	switch {
	case !harmless(header["Upgrade"]):
		return fmt.Errorf("http2: there is no upgrade to %q", header["Upgrade"])
	case !harmless(header["Transfer-Encoding"], "chunked"):
		return fmt.Errorf("http2: there is no transfer encoding %q", header["Transfer-Encoding"])
	case !harmless(header["Connection"], "close", "keep-alive"):
		return fmt.Errorf("http2: there is no connection header %q", header["Connection"])
	}
	return nil
}

func harmless(values []string, known ...string) bool {
	for _, value := range values {
		if value != "" && !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, value) }) {
			return false
		}
	}
	return true
}

func validPath(path string) bool { return strings.HasPrefix(path, "/") || path == "*" }

// validField tells what no header may hold, without the value, which may be a secret.
func validField(name string, values []string) error {
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

// encode writes the header.
func (h *requestHead) encode(e *encoding) {
	e.add(":method", cmp.Or(h.req.Method, http.MethodGet))
	if h.req.Method != http.MethodConnect {
		e.add(":scheme", cmp.Or(h.req.URL.Scheme, "http"))
	}
	e.add(":authority", h.authority)
	if h.req.Method != http.MethodConnect {
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
	if h.length > 0 || h.length == 0 && takesBody(h.req.Method) {
		e.add("content-length", strconv.FormatInt(h.length, 10))
	}
	if names := trailerNames(h.req.Trailer); names != "" {
		e.add("trailer", names)
	}
}

// addCookies sends each cookie for itself, so that those that stay the same are sent once (RFC 9113, 8.2.3).
func addCookies(e *encoding, values []string) {
	for _, value := range values {
		for crumb := range strings.SplitSeq(value, "; ") {
			e.add("cookie", crumb)
		}
	}
}

// takesBody knows the methods whose requests say so when they have no body.
func takesBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

func trailerNames(trailer http.Header) string {
	if len(trailer) == 0 {
		return ""
	}
	list := make([]string, 0, len(trailer))
	for name := range trailer {
		list = append(list, name)
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}
