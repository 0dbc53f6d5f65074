// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"fmt"
	"io"
	"net/http"
	"strconv"

	"golang.org/x/net/http2/hpack"
)

// readStatus returns the status of an answer, which is its only pseudo field.
func readStatus(pseudo []hpack.HeaderField) (int, bool) {
	if len(pseudo) != 1 || pseudo[0].Name != ":status" || len(pseudo[0].Value) != 3 {
		return 0, false
	}
	status, err := strconv.Atoi(pseudo[0].Value)
	return status, err == nil && status >= 100
}

// newResponse returns the answer to a request. The caller sets the body, if one may follow; a body that
// was announced and does not follow is an error for its reader.
func newResponse(req *http.Request, status int, header, trailer http.Header, end bool) *http.Response {
	res := &http.Response{
		Status: statusText(status), StatusCode: status, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: header, Trailer: trailer, ContentLength: -1, Request: req, Body: http.NoBody,
	}
	if lengths := header["Content-Length"]; len(lengths) == 1 {
		if length, err := strconv.ParseUint(lengths[0], 10, 63); err == nil {
			res.ContentLength = int64(length)
		}
	} else if end && req.Method != http.MethodHead {
		res.ContentLength = 0
	}
	if end && req.Method != http.MethodHead && res.ContentLength > 0 && allowsBody(status) {
		res.Body = missingBody{}
	}
	return res
}

// missingBody is the body of an answer that has announced one and does not have one.
type missingBody struct{}

// Read implements io.Reader.
func (missingBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Close implements io.Closer.
func (missingBody) Close() error { return nil }

// allowsBody reports whether an answer with this status may have a body (RFC 9110, 6.4.1).
func allowsBody(status int) bool {
	return status >= http.StatusOK && status != http.StatusNoContent && status != http.StatusNotModified
}

// statusText returns the status as HTTP/1 has it after its version.
func statusText(status int) string {
	if status == http.StatusOK {
		return "200 OK"
	}
	return fmt.Sprintf("%d %s", status, http.StatusText(status))
}
