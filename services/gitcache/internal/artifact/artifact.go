// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package artifact knows what charts and OCI artifacts are made of: which bytes of an archive
// count, and how they become trees and files like a commit's.
//
// Its promises:
//
//   - The same files make the same trees, ids and bundles, however they were packed, and as if a Git
//     repository held them.
//   - An archive is unpacked as it arrives, within the limits of bundles: bytes, files, bytes of a
//     file, and bytes that decompressing makes. Names and symbolic links have to be such as a bundle
//     may hold. Hard links, devices, names that come twice and files below other files are errors.
//   - Defects of an archive are judged only once its digest was found right: see [Consume].
//
// An adapter that talks to an upstream downloads an artifact with Consume, unpacks it with [Unpack]
// into what [Mirrors.Keep] gives it, and a mirror then reads it by its [Listing].
//
// The package holds values and functions, and a port. It reads no disk and no network.
package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Layer selects layers of an OCI artifact. The zero Layer selects the default: a chart's layer, or
// else the only one.
type Layer struct {
	// MediaType is the type of the layer; of several with that type the first. Empty: the only layer.
	MediaType string
	// Copy keeps the layer as a file, instead of unpacking it.
	Copy bool
	// Files keeps every layer that has a title as a file. It excludes the other fields.
	Files bool
}

// mediaType is the form of RFC 6838, section 4.2.
var mediaType = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}$`)

// Problem returns a sentence for a person about fields that do not go together; "" if they do.
func (l Layer) Problem() string {
	switch {
	case l.Files && (l.Copy || l.MediaType != ""):
		return "Files takes every layer, and excludes a media type and copy."
	case l.MediaType != "" && !mediaType.MatchString(l.MediaType):
		return "The media type must be type/subtype, such as application/vnd.oci.image.layer.v1.tar+gzip."
	}
	return ""
}

// ID names an artifact within its repository, and what of it is delivered. For a package snapshot it
// is the commit.
type ID struct {
	// Digest has 64 digits: what a ref of the repository leads to.
	Digest string
	Layer  Layer
}

// The forms of a layer in the text of an ID.
const (
	formUnpack = "unpack"
	formCopy   = "copy"
	formFiles  = "files"
)

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// IsDigest reports whether text is a digest of 64 lower-case digits.
func IsDigest(text string) bool { return digestForm.MatchString(text) }

// String returns the text that [ParseID] reads: the digest alone for the zero Layer.
func (id ID) String() string {
	switch l := id.Layer; {
	case l.Files:
		return id.Digest + ":" + formFiles
	case l.Copy:
		return id.Digest + ":" + formCopy + ":" + l.MediaType
	case l.MediaType != "":
		return id.Digest + ":" + formUnpack + ":" + l.MediaType
	default:
		return id.Digest
	}
}

// ParseID reads the text of an ID, of which there is one for each.
func ParseID(text string) (ID, error) {
	digest, rest, hasLayer := strings.Cut(text, ":")
	id := ID{Digest: digest}
	if hasLayer {
		var form string
		form, id.Layer.MediaType, _ = strings.Cut(rest, ":")
		id.Layer.Copy, id.Layer.Files = form == formCopy, form == formFiles
	}
	if !IsDigest(digest) || id.Layer.Problem() != "" || id.String() != text {
		return ID{}, fmt.Errorf("%.100q names no artifact", text)
	}
	return id, nil
}

// Generation is the generation of the files of every artifact mirror, which do not change under
// their names. No Git mirror has a generation of that name.
const Generation = "artifacts-1"

// ErrNoMemo means that nothing was noted with a mirror.
var ErrNoMemo = errors.New("nothing was noted with the mirror")

// Mirrors keep artifact mirrors on this replica's disk. Its methods may be called concurrently, the
// ones that write a mirror, a Staged's Keep among them, for different mirrors only.
//
// Beside refs and artifacts, a mirror holds a memo: what an adapter wants to know at its next fetch,
// such as validators of HTTP and the addresses of archives. Other replicas copy it with the mirror.
type Mirrors interface {
	// Accept makes c, as of now, what the mirror of p.Definition durably holds, with the memo that is
	// written; nil keeps the memo. It asks p.Guard first. Artifacts that are there stay; where p.Have
	// is empty, those whose bytes are not as they were written go. The content returned has times,
	// epoch and sizes, and is partial.
	Accept(ctx context.Context, p mirror.FetchParams, c mirror.Content, memo func(io.Writer) error) (mirror.Content, error)
	// Unchanged durably records that the mirror, which holds p.Have, was found equal to the upstream
	// now. It asks p.Guard first.
	Unchanged(p mirror.FetchParams) (mirror.Content, error)
	// Amend makes c durable between two fetches: refs that were looked up, and artifacts that were
	// kept since. The times of the fetch stay, and other replicas see that there is more to copy. It
	// asks p.Guard first.
	Amend(p mirror.FetchParams, c mirror.Content, memo func(io.Writer) error) (mirror.Content, error)
	// Memo opens the memo. ErrNoMemo: there is none.
	Memo(uid string) (io.ReadCloser, error)
	// Has reports whether the mirror holds an artifact.
	Has(uid string, id ID) bool
	// Stage takes the files that fill adds, in any order, for an artifact, beside the mirror: it may
	// be called while others write the mirror. On an error nothing of them stays. It returns the
	// errors of fill, of [NewListing], and the context's. Only so many artifacts are staged at once,
	// so a caller ends the use of one before it stages the next.
	Stage(ctx context.Context, uid string, id ID, fill func(Sink) error) (Staged, error)
}

// Staged are the files of an artifact that does not belong to a mirror yet. One goroutine uses it.
type Staged interface {
	// Keep writes the artifact into the mirror. It counts from the next Amend or Accept on. Errors are
	// a *mirror.UpstreamError where the disk has no room, and the disk's.
	Keep() error
	// Discard ends the use of the files. It is called once, also after Keep.
	Discard()
}
