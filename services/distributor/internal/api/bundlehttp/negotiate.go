// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundlehttp

import (
	"net/http"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/runtime/serve"
)

// tarType is the media type of a bundle's content.
const tarType = "application/x-tar"

// form is one of the representations of a bundle.
type form int

const (
	// formFile is the bundle as a file: zstd is its format, not an encoding that a client would
	// undo.
	formFile form = iota
	// formZstd is the tar, zstd its encoding: the same bytes as formFile.
	formZstd
	// formGzip is the tar, gzip its encoding.
	formGzip
	// formPlain is the tar.
	formPlain
)

// codings are the encodings of the tar, the best for both sides first.
var codings = [...]form{formZstd, formGzip, formPlain}

// mediaType is the Content-Type.
func (f form) mediaType() string {
	if f == formFile {
		return bundle.MediaType
	}
	return tarType
}

// coding is the Content-Encoding; "" is none.
func (f form) coding() string {
	switch f {
	case formZstd:
		return "zstd"
	case formGzip:
		return "gzip"
	case formFile, formPlain:
	}
	return ""
}

// name tells the forms apart in their tags.
func (f form) name() string {
	return [...]string{formFile: "file", formZstd: "zstd", formGzip: "gzip", formPlain: "tar"}[f]
}

// choose picks the form that a request wants; false means that it refuses all of them.
//
// A client that names a media type gets it. Another one that knows encodings gets the tar in its
// preferred one, and will undo it. All others get the file: they save a bundle, which zstd unpacks.
func choose(header http.Header) (form, bool) {
	accept := serve.PreferencesOf(header["Accept"])
	file := accept.Weight(0, bundle.MediaType, "application/*", "*/*")
	tar := accept.Weight(0, tarType, "application/*", "*/*")
	values, encodes := header["Accept-Encoding"]
	encodings := serve.PreferencesOf(values)
	none := encodings.Weight(least, "identity", "*")
	if !encodes {
		none = 1
	}
	// A header that accepts neither counts as absent: a readable answer is better than a refusal.
	if none > 0 && (file > tar || file == tar && !encodes) {
		return formFile, true
	}
	if !encodes {
		return formPlain, true
	}
	best, most := formFile, 0.0
	for _, f := range codings {
		weight := none
		if coding := f.coding(); coding != "" {
			weight = encodings.Weight(0, coding, "x-"+coding, "*") // x-gzip is an old name of gzip
		}
		if weight > most {
			best, most = f, weight
		}
	}
	return best, most > 0
}

// least is the weight of what a header allows without naming it. Named weights have three digits at
// most.
const least = 0.0001
