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

// newRequestHead returns the header of a request. It fails for a request that HTTP/2 cannot express.
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

// validateConnection refuses fields that ask for something that HTTP/2 does not have. Fields that only
// concern how HTTP/1.1 uses the connection are left out.
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

// validateField returns an error for a field that a header may not have. It does not contain the value,
// which may be a secret.
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
	if h.length > 0 || h.length == 0 && expectsBody(h.req.Method) {
		e.add("content-length", strconv.FormatInt(h.length, 10))
	}
	if names := trailerNames(h.req.Trailer); names != "" {
		e.add("trailer", names)
	}
}

// addCookies adds each cookie as a field of its own, so that HPACK compresses those that stay the same
// (RFC 9113, 8.2.3).
func addCookies(e *headerEncoder, values []string) {
	for _, value := range values {
		for crumb := range strings.SplitSeq(value, "; ") {
			e.add("cookie", crumb)
		}
	}
}

// expectsBody reports whether requests with this method usually have a body. Without one they announce
// its length of zero.
func expectsBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// trailerNames returns the value of the field that announces a trailer.
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
