// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundlehttp

import (
	"net/http"
	"strings"

	"github.com/leatdev/leat/internal/runtime/serve"
)

// maxRanges bounds the ranges of one answer. Each costs a part with headers of its own and a seek,
// however short it is.
const maxRanges = 16

// readable returns the request as http.ServeContent understands it. That reads the first line of a
// header only, gives ranges to a HEAD, refuses units it does not know, and takes any number of
// ranges; RFC 9110 wants the first three otherwise and leaves the last one open. Where ranges do
// not count, the answer is the whole.
func readable(r *http.Request) *http.Request {
	wanted := wantedRanges(r)
	if wanted == r.Header.Get("Range") && len(r.Header["If-Match"]) <= 1 && len(r.Header["If-None-Match"]) <= 1 {
		return r
	}
	header := r.Header.Clone()
	for _, name := range []string{"If-Match", "If-None-Match"} {
		if lines := header[name]; len(lines) > 1 {
			header.Set(name, strings.Join(lines, ", "))
		}
	}
	header.Del("Range")
	if wanted != "" {
		header.Set("Range", wanted)
	}
	r = r.WithContext(r.Context()) // a copy
	r.Header = header
	return r
}

// wantedRanges returns the Range header, or "" where it does not count.
func wantedRanges(r *http.Request) string {
	text := r.Header.Get("Range")
	unit, ranges, found := strings.Cut(text, "=")
	if r.Method != http.MethodGet || !found || !strings.EqualFold(strings.TrimSpace(unit), "bytes") ||
		strings.Count(ranges, ",") >= maxRanges {
		return ""
	}
	return "bytes=" + ranges
}

// refuses reports whether If-Match names other representations only (RFC 9110, strong comparison).
func refuses(header http.Header, tag string) bool {
	lines, asked := header["If-Match"]
	return asked && !serve.NamesTag(lines, tag, false)
}

// has reports whether the client has the representation by If-None-Match (RFC 9110, weak
// comparison).
func has(header http.Header, tag string) bool {
	return serve.NamesTag(header["If-None-Match"], tag, true)
}
