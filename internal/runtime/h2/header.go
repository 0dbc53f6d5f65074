// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	headerTable = 4 << 10 // the size of HPACK's dynamic table, each way
	// maxBlocks is how many times as long as the largest header the frames of one header may be. A
	// header that is too large is still decoded, since later headers refer to it, but not without
	// end (CVE-2024-27316).
	maxBlocks = 2
	// maxKeptFields is the largest capacity for fields that a connection keeps between headers.
	maxKeptFields = 64
	// maxKeptBlock is the size of the largest header buffer that a connection keeps.
	maxKeptBlock = 4 << 10
	// manyFields is the number of fields that a usual header does not exceed. In a larger header
	// most fields have the same name.
	manyFields = 32
)

// headerDecoder decodes incoming headers, one after the other: frames of other streams cannot come
// in the middle of one. It belongs to the reader. A header that does not fit into one small frame
// is decoded when all of it has arrived. Until then the decoder holds the bytes that the peer has
// sent, not their decompressed form, which can be thousands of times as large.
type headerDecoder struct {
	hpack      *hpack.Decoder
	limit      int    // how many bytes a header may have, as HTTP/2 counts them
	id         uint32 // the stream whose header has begun and not ended; zero for none
	endsStream bool   // no data follows the header
	frames     int    // the length of the header's frames so far
	block      []byte // the bytes received so far; nil if the only frame is decoded as it arrives
	size       int    // of the decoded fields, and of those beyond the limit
	fields     []hpack.HeaderField
}

func (d *headerDecoder) init(limit int) {
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

// isTooLarge reports whether fields are missing because the header exceeds the limit.
func (d *headerDecoder) isTooLarge() bool { return d.size > d.limit }

// begin begins the header of a stream.
func (d *headerDecoder) begin(id uint32, endsStream bool) {
	d.id, d.endsStream, d.frames, d.size = id, endsStream, 0, 0
	d.hpack.SetEmitEnabled(true)
}

// checkLength returns an error if a header's frames may not have so many bytes.
func (d *headerDecoder) checkLength(bytes int) error {
	if bytes > maxBlocks*d.limit {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	return nil
}

// count adds the length of a frame, and returns an error if the header is then too long.
func (d *headerDecoder) count(bytes int) error {
	d.frames += frameHeadLen + bytes // empty frames also count
	return d.checkLength(d.frames)
}

// decode decodes the whole block of a header.
func (d *headerDecoder) decode(block []byte) error {
	d.id = 0
	if _, err := d.hpack.Write(block); err != nil || d.hpack.Close() != nil {
		return http2.ConnectionError(http2.ErrCodeCompression)
	}
	return nil
}

// forget drops the fields after their use.
func (d *headerDecoder) forget() {
	clear(d.fields) // their text must not stay in memory
	d.fields = d.fields[:0]
	if cap(d.fields) > maxKeptFields {
		d.fields = nil
	}
}

// heldBytes returns how many bytes the fields count against a budget. Fields beyond the limit were
// dropped.
func (d *headerDecoder) heldBytes() int { return min(d.size, d.limit) }

// split returns the pseudo fields, whose names begin with a colon, and the others. It reports false
// for a malformed header (RFC 9113, 8.2.1 and 8.3).
func (d *headerDecoder) split() (pseudo, regular []hpack.HeaderField, ok bool) {
	n := 0
	for n < len(d.fields) && d.fields[n].IsPseudo() {
		n++
	}
	pseudo, regular = d.fields[:n], d.fields[n:]
	for _, f := range regular {
		if f.IsPseudo() || !isValidName(f.Name) || !httpguts.ValidHeaderFieldValue(f.Value) {
			return nil, nil, false
		}
	}
	return pseudo, regular, true
}

// toHeader returns the fields as a header, and the names that "Trailer" announces, with nil values.
// Several values share one slice.
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
				if each = strings.TrimSpace(each); each != "" && !isFraming(each) {
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

// headerEncoder encodes outgoing headers, in the order in which their frames are appended to the
// output: both sides update HPACK's table in that order. The connection's lock guards it.
type headerEncoder struct {
	hpack *hpack.Encoder
	block bytes.Buffer
}

func (e *headerEncoder) init() { e.hpack = hpack.NewEncoder(&e.block) }

// begin begins a header. The caller then adds all its fields.
func (e *headerEncoder) begin() {
	if e.block.Cap() > maxKeptBlock {
		e.block = bytes.Buffer{}
	}
	e.block.Reset()
}

// add encodes a field. Writing to a buffer does not fail.
func (e *headerEncoder) add(name, value string) {
	_ = e.hpack.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: isVolatile(name)})
}

// setTableSize sets the size of HPACK's table that the peer allows. A larger one than the usual
// would only cost memory.
func (e *headerEncoder) setTableSize(bytes uint32) {
	e.hpack.SetMaxDynamicTableSize(min(bytes, headerTable))
}

// names are the names of common fields, in net/http's form. Their case is changed without
// allocating.
var names = [...]string{
	"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Accept-Ranges",
	"Access-Control-Allow-Credentials", "Access-Control-Allow-Headers", "Access-Control-Allow-Methods",
	"Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Access-Control-Max-Age",
	"Access-Control-Request-Headers", "Access-Control-Request-Method", "Age", "Allow", "Audit-Id", "Authorization",
	"Baggage", "Cache-Control", "Connect-Accept-Encoding", "Connect-Content-Encoding", "Connect-Protocol-Version",
	"Connect-Timeout-Ms", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Length",
	"Content-Location", "Content-Range", "Content-Type", "Cookie", "Date", "Etag", "Expect", "Expires", "Forwarded",
	"From", "Host", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since",
	"Impersonate-Group", "Impersonate-Uid", "Impersonate-User", "Kubectl-Command", "Kubectl-Session",
	"Last-Modified", "Link", "Location", "Max-Forwards", "Origin", "Range", "Referer", "Retry-After", "Server",
	"Set-Cookie", "Strict-Transport-Security", "Te", "Trailer", "Traceparent", "Tracestate", "User-Agent", "Vary",
	"Via", "Warning", "Www-Authenticate", "X-Content-Type-Options", "X-Forwarded-For", "X-Forwarded-Host",
	"X-Forwarded-Proto", "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid",
}

// lowerNames leads from net/http's form of a name to that on the wire, canonicalNames back.
var lowerNames, canonicalNames = func() (lower, canon map[string]string) {
	lower, canon = make(map[string]string, len(names)), make(map[string]string, len(names))
	for _, name := range names {
		small := strings.ToLower(name)
		lower[name], canon[small] = small, name
	}
	return lower, canon
}()

// lower returns the form of a field's name on the wire.
func lower(name string) string {
	if known, ok := lowerNames[name]; ok {
		return known
	}
	return strings.ToLower(name)
}

// canonical returns net/http's form of a field's name.
func canonical(name string) string {
	if known, ok := canonicalNames[name]; ok {
		return known
	}
	return http.CanonicalHeaderKey(name)
}

// isOfConnection reports whether a field concerns one connection. HTTP/2 does not have such fields
// (RFC 9113, 8.2.2). The name is in lower case.
func isOfConnection(name string) bool {
	switch name {
	case "connection", "proxy-connection", "transfer-encoding", "upgrade", "keep-alive":
		return true
	}
	return false
}

// isValidName reports whether a name is valid on the wire, where it is in lower case.
func isValidName(name string) bool {
	if _, known := canonicalNames[name]; known {
		return true
	}
	return httpguts.ValidHeaderFieldName(name) && lower(name) == name
}

// contentLength returns the length in the values of Content-Length. It reports false, with a length
// of -1, if there is not exactly one valid length.
func contentLength(values []string) (int64, bool) {
	if len(values) != 1 {
		return -1, false
	}
	length, err := strconv.ParseUint(values[0], 10, 63)
	if err != nil {
		return -1, false
	}
	return int64(length), true
}

// isFraming reports whether a field declares the length of a message. Trailers cannot have such
// fields (RFC 9110, 6.5.1).
func isFraming(name string) bool {
	return slices.Contains([]string{"Content-Length", "Transfer-Encoding", "Trailer"}, http.CanonicalHeaderKey(name))
}

// isVolatile reports whether a field has another value in each message, or after each second. In HPACK's table it would
// only replace fields that come again. And an idle connection would keep the times of its last sixty signs of life.
func isVolatile(name string) bool {
	switch name {
	case ":path", "content-length", "traceparent", "audit-id", "date", "connect-timeout-ms":
		return true
	}
	return false
}
