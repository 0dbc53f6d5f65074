// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

// requestLine has the pseudo fields of a request.
type requestLine struct{ method, scheme, authority, path string }

// readRequest returns the request of a header, without a body and with its length, which is -1 if it is
// not known. It fails for a malformed request.
func readRequest(d *headerDecoder) (*http.Request, error) {
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
	if cookies := header["Cookie"]; len(cookies) > 1 {
		header["Cookie"] = []string{strings.Join(cookies, "; ")}
	}
	if line.authority == "" {
		line.authority = header.Get("Host")
	}
	delete(header, "Host")
	length, err := readLength(header, d.endsStream)
	if err != nil {
		return nil, err
	}
	return &http.Request{
		Method: line.method, URL: target, RequestURI: uri, Host: line.authority, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: header, Trailer: trailer, ContentLength: length, Body: http.NoBody,
	}, nil
}

// readRequestLine reads the pseudo fields of a request, each of which may come once. Only the authority
// may be empty.
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
	return httpguts.ValidHeaderFieldName(l.method) && (l.scheme == "http" || l.scheme == "https") && isValidPath(l.path) &&
		httpguts.ValidHostHeader(l.authority)
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
	lengths := header["Content-Length"]
	switch {
	case len(lengths) == 0 && endsStream:
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

// refuseHeader answers a request whose header is too large, as net/http does.
func refuseHeader(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
	_, _ = io.WriteString(w, "<h1>HTTP Error 431</h1><p>Request Header Field(s) Too Large</p>")
}
