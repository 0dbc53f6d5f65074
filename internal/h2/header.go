// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	headerTable = 4 << 10 // HPACK's dynamic table, each way
	// maxBlocks is how many times as long as a header may be its frames may be: what is too long is still decoded, since later headers
	// refer to it, but not for ever (CVE-2024-27316).
	maxBlocks = 2
)

// decoding is an incoming header. It belongs to the reader. A header that does not fit into one small frame is decoded
// when all of it has arrived. Until then decoding holds the bytes that the peer has sent, not their decompressed form.
type decoding struct {
	hpack  *hpack.Decoder
	limit  int
	stream uint32 // of the header that goes on; zero: none does
	end    bool   // it ends its stream
	bytes  int    // of its frames
	block  []byte // the bytes received so far; nil if the only frame is decoded as it arrives
	size   int
	fields []hpack.HeaderField
}

const (
	// blockStep is how many bytes are allocated for a header at once, however long its frame claims to be.
	blockStep = 16 << 10
	// maxKeptFields is the largest capacity for fields that a connection keeps between headers.
	maxKeptFields = 64
)

func (d *decoding) init(limit int) {
	d.limit = limit
	d.hpack = hpack.NewDecoder(headerTable, func(f hpack.HeaderField) {
		d.size += int(f.Size())
		if d.size > d.limit {
			d.hpack.SetEmitEnabled(false)
			return
		}
		d.fields = append(d.fields, f)
	})
}

// tooLarge reports whether fields are missing because there were too many.
func (d *decoding) tooLarge() bool { return d.size > d.limit }

// open begins a header.
func (d *decoding) open(stream uint32, end bool) {
	d.stream, d.end, d.bytes, d.size = stream, end, 0, 0
	d.hpack.SetEmitEnabled(true)
}

// release drops the fields.
func (d *decoding) release() {
	clear(d.fields) // so that their text is not kept
	d.fields = d.fields[:0]
	if cap(d.fields) > maxKeptFields {
		d.fields = nil
	}
}

// fits refuses a header whose frames have so many bytes.
func (d *decoding) fits(bytes int) error {
	if bytes > maxBlocks*d.limit {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	return nil
}

// count adds the length of a frame, and returns an error if the header is then too long.
func (d *decoding) count(bytes int) error {
	d.bytes += frameHeadLen + bytes // empty frames also count
	return d.fits(d.bytes)
}

// decode decodes the whole header.
func (d *decoding) decode(block []byte) error {
	d.stream = 0
	if _, err := d.hpack.Write(block); err != nil || d.hpack.Close() != nil {
		return http2.ConnectionError(http2.ErrCodeCompression)
	}
	return nil
}

// held returns how many bytes the fields count against a budget. Fields beyond the limit were dropped.
func (d *decoding) held() int { return min(d.size, d.limit) }

// split returns the fields whose names begin with a colon, and the others. It reports false for what is malformed (RFC 9113, 8.2.1
// and 8.3).
func (d *decoding) split() (pseudo, regular []hpack.HeaderField, ok bool) {
	n := 0
	for n < len(d.fields) && d.fields[n].IsPseudo() {
		n++
	}
	pseudo, regular = d.fields[:n], d.fields[n:]
	for _, f := range regular {
		if f.IsPseudo() || !validName(f.Name) || !httpguts.ValidHeaderFieldValue(f.Value) {
			return nil, nil, false
		}
	}
	return pseudo, regular, true
}

// validName accepts names as they are on the wire: in lower case.
func validName(name string) bool {
	if _, known := canonicalNames[name]; known {
		return true
	}
	return httpguts.ValidHeaderFieldName(name) && !strings.ContainsFunc(name, func(r rune) bool { return r >= 'A' && r <= 'Z' })
}

// manyFields is the number of fields that a usual header does not exceed. In a larger header most fields have the same
// name.
const manyFields = 32

// toHeader returns the fields as a header, and the names that "Trailer" announces, with nil values. Several values
// share one slice.
func toHeader(fields []hpack.HeaderField) (header, announced http.Header) {
	header = make(http.Header, min(len(fields), manyFields))
	var values []string
	for i, f := range fields {
		name := canonical(f.Name)
		if name == "Trailer" {
			if announced == nil {
				announced = http.Header{}
			}
			for each := range strings.SplitSeq(f.Value, ",") {
				if each = strings.TrimSpace(each); each != "" && !framing(each) {
					announced[http.CanonicalHeaderKey(each)] = nil
				}
			}
			continue
		}
		if there, ok := header[name]; ok {
			header[name] = append(there, f.Value)
			continue
		}
		if len(values) == 0 {
			values = make([]string, min(len(fields)-i, manyFields))
		}
		values[0] = f.Value
		header[name], values = values[:1:1], values[1:]
	}
	return header, announced
}

// framing knows the fields that say how long a message is, which nobody may say behind it (RFC 9110, 6.5.1).
func framing(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Content-Length", "Transfer-Encoding", "Trailer":
		return true
	}
	return false
}

// maxKeptBlock is the size of the largest header buffer that a connection keeps.
const maxKeptBlock = 4 << 10

// encoding makes header blocks. The connection's lock guards it: blocks go out in the order in which they are made.
type encoding struct {
	hpack *hpack.Encoder
	block bytes.Buffer
	size  int
}

func (e *encoding) init() {
	e.hpack = hpack.NewEncoder(&e.block)
}

func (e *encoding) open() {
	if e.block.Cap() > maxKeptBlock {
		e.block = bytes.Buffer{}
	}
	e.block.Reset()
	e.size = 0
}

// add adds a field. A buffer takes everything, so that it cannot fail.
func (e *encoding) add(name, value string) {
	f := hpack.HeaderField{Name: name, Value: value, Sensitive: changes(name)}
	e.size += int(f.Size())
	_ = e.hpack.WriteField(f)
}

// changes knows fields that are others each time, and would only push the rest out of the table.
func changes(name string) bool {
	switch name {
	case ":path", "content-length", "traceparent", "audit-id":
		return true
	}
	return false
}

// names are those of fields that are often seen, so that no memory is needed to change their case.
var names = [...]string{
	"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Accept-Ranges", "Access-Control-Allow-Credentials",
	"Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Access-Control-Allow-Origin", "Access-Control-Expose-Headers",
	"Access-Control-Max-Age", "Access-Control-Request-Headers", "Access-Control-Request-Method", "Age", "Allow", "Audit-Id", "Authorization",
	"Baggage", "Cache-Control", "Connect-Accept-Encoding", "Connect-Content-Encoding", "Connect-Protocol-Version", "Connect-Timeout-Ms",
	"Content-Disposition", "Content-Encoding", "Content-Language", "Content-Length", "Content-Location", "Content-Range", "Content-Type",
	"Cookie", "Date", "Etag", "Expect", "Expires", "Forwarded", "From", "Host", "If-Match", "If-Modified-Since", "If-None-Match",
	"If-Range", "If-Unmodified-Since", "Impersonate-Group", "Impersonate-Uid", "Impersonate-User", "Kubectl-Command", "Kubectl-Session",
	"Last-Modified", "Link", "Location", "Max-Forwards", "Origin", "Range", "Referer", "Retry-After", "Server", "Set-Cookie",
	"Strict-Transport-Security", "Te", "Trailer", "Traceparent", "Tracestate", "User-Agent", "Vary", "Via", "Warning", "Www-Authenticate",
	"X-Content-Type-Options", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Kubernetes-Pf-Flowschema-Uid",
	"X-Kubernetes-Pf-Prioritylevel-Uid",
}

var lowerNames, canonicalNames = func() (lower, canon map[string]string) {
	lower, canon = make(map[string]string, len(names)), make(map[string]string, len(names))
	for _, name := range names {
		small := strings.ToLower(name)
		lower[name], canon[small] = small, name
	}
	return lower, canon
}()

func lower(name string) string {
	if known, ok := lowerNames[name]; ok {
		return known
	}
	return strings.ToLower(name)
}

func canonical(name string) string {
	if known, ok := canonicalNames[name]; ok {
		return known
	}
	return http.CanonicalHeaderKey(name)
}

// ofConnection knows the fields of one connection, which HTTP/2 does not have (RFC 9113, 8.2.2).
func ofConnection(name string) bool {
	switch name {
	case "connection", "proxy-connection", "transfer-encoding", "upgrade", "keep-alive":
		return true
	}
	return false
}
