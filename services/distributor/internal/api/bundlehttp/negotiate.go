// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundlehttp

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/leatdev/leat/internal/contract/bundle"
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
	accept := elementsOf(header["Accept"])
	file := accept.weight(0, bundle.MediaType, "application/*", "*/*")
	tar := accept.weight(0, tarType, "application/*", "*/*")
	values, encodes := header["Accept-Encoding"]
	encodings := elementsOf(values)
	none := encodings.weight(least, "identity", "*")
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
			weight = encodings.weight(0, coding, "x-"+coding, "*") // x-gzip is an old name of gzip
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

// elements are the parts of an Accept header or of one of its kind.
type elements []element

type element struct {
	name   string // in lower case
	weight float64
}

// elementsOf reads the lines of a header. Elements with an invalid weight are skipped, parameters
// other than the weight are ignored.
func elementsOf(lines []string) elements {
	var found elements
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			name, parameters, _ := strings.Cut(part, ";")
			name = strings.ToLower(strings.TrimSpace(name))
			weight, ok := weightOf(parameters)
			if name != "" && ok {
				found = append(found, element{name, weight})
			}
		}
	}
	return found
}

// weightOf reads the parameter q, which is 1 where it is missing.
func weightOf(parameters string) (float64, bool) {
	for parameter := range strings.SplitSeq(parameters, ";") {
		key, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(strings.TrimSpace(key), "q") {
			continue
		}
		weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		return weight, err == nil && weight >= 0 && weight <= 1
	}
	return 1, true
}

// weight returns the weight of the first existing name: the most exact one comes first. Of a name
// that occurs twice the higher weight counts.
func (e elements) weight(otherwise float64, names ...string) float64 {
	for _, name := range names {
		most, found := 0.0, false
		for _, element := range e {
			if element.name == name {
				most, found = max(most, element.weight), true
			}
		}
		if found {
			return most
		}
	}
	return otherwise
}
