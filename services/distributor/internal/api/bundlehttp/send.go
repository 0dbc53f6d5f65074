// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundlehttp

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/delivery/encodings"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
)

// send answers with a form of a bundle that the caller may read. It returns an error only where
// nothing was written yet.
func (h *handler) send(w http.ResponseWriter, r *http.Request, wanted plan.Bundle, f form) error {
	header := w.Header()
	setHeaders(header)
	if tag := tagOf(formPlain, wanted.Digest); f == formPlain && has(r.Header, tag) && len(r.Header["If-Match"]) == 0 {
		// The one form whose tag is known without its bytes, which may have to be fetched.
		header.Set("ETag", tag)
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	content, err := h.open(r, wanted, f)
	if err != nil {
		return wire.BundleError(err)
	}
	defer func() { _ = content.Close() }()
	header.Set("Content-Type", f.mediaType())
	if coding := f.coding(); coding != "" {
		header.Set("Content-Encoding", coding)
	}
	if content.whole == nil {
		stream(w, content)
		return nil
	}
	tag := tagOf(f, content.sum)
	if refuses(r.Header, tag) {
		header.Del("Content-Encoding")
		refuse(w, http.StatusPreconditionFailed, "the bundle's bytes are others than If-Match wants")
		return nil
	}
	header.Set("ETag", tag)
	if f.coding() != "" {
		// ServeContent leaves the length of an encoding out, in case somebody in between does the
		// encoding; nobody does.
		header.Set("Content-Length", strconv.FormatInt(content.size, 10))
	}
	http.ServeContent(w, readable(r), "", time.Time{}, content.whole)
	return nil
}

// stream answers with bytes that are still coming. When they turn out wrong the answer is broken
// off, so that nobody takes it for complete. It has no tag: which bytes these are is known at their
// end.
func stream(w http.ResponseWriter, growing io.Reader) {
	w.Header().Set("Accept-Ranges", "none")
	if _, err := io.Copy(w, growing); err != nil {
		panic(http.ErrAbortHandler) //nolint:forbidigo // how net/http is told to break a connection or a stream
	}
}

// content is a form of a bundle, open for reading.
type content struct {
	io.ReadCloser

	// whole is the same reader, where all is there: a file, which the kernel copies. Nil while the
	// bundle is being filled.
	whole io.ReadSeeker
	size  int64
	// sum is the digest of the bytes.
	sum digest.Digest
}

// open opens a form; the caller closes it. It waits for the whole of a bundle that is being filled
// unless the answer is nothing but its stored bytes from the first to the last.
func (h *handler) open(r *http.Request, wanted plan.Bundle, f form) (content, error) {
	encoding := encodings.Plain
	switch f {
	case formFile, formZstd:
		if asksForAll(r) {
			stored, err := h.p.Cache.Stream(r.Context(), wanted)
			if err != nil || stored.Blob == nil {
				return content{ReadCloser: stored.Growing}, err
			}
			return contentOf(stored.Blob), nil
		}
		blob, err := h.p.Cache.Open(r.Context(), wanted)
		if err != nil {
			return content{}, err
		}
		return contentOf(blob), nil
	case formGzip:
		encoding = encodings.Gzip
	case formPlain:
	}
	file, err := h.p.Encodings.Open(r.Context(), wanted.Digest, encoding, func(ctx context.Context) (*cas.Blob, error) {
		return h.p.Cache.Open(ctx, wanted)
	})
	if err != nil {
		return content{}, err
	}
	return content{ReadCloser: file, whole: file.File, size: file.Size, sum: file.Sum}, nil
}

func contentOf(blob *cas.Blob) content {
	return content{ReadCloser: blob, whole: blob.ReadSeekCloser, size: blob.StoredSize, sum: blob.StoredDigest}
}

// asksForAll reports whether the answer needs to know neither the length nor the tag.
func asksForAll(r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	for _, name := range []string{"Range", "If-Match", "If-None-Match"} {
		if len(r.Header[name]) > 0 {
			return false
		}
	}
	return true
}

// tagOf makes the strong tag of a form with these bytes. The tar's is the same everywhere. The
// others' depend on compressors, of which replicas may have different versions: the tag says which
// bytes they are, so that nobody joins pieces of two.
func tagOf(f form, sum digest.Digest) string {
	return `"` + f.name() + "-" + sum.Hex() + `"`
}

// setHeaders tells caches what they may do. The content never changes under its URL: the agent's
// own cache need not ask again. A shared cache may keep it, too, but has to ask for every caller,
// with that caller's token, and hands it out when the answer is 304; so RFC 9111 has it for
// s-maxage=0 (sections 3.5 and 5.2.2.10).
func setHeaders(header http.Header) {
	header.Set("Cache-Control", "max-age=31536000, s-maxage=0, immutable")
	header.Set("Vary", "Accept, Accept-Encoding")
	header.Set("X-Content-Type-Options", "nosniff")
}

// refuse answers what HTTP alone is about, such as conditions, in words.
func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, text, status)
}
