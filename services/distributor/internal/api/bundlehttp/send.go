// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundlehttp

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
)

// send answers with a form of a bundle that the caller may read. It returns an error only where
// nothing was written yet.
func (h *handler) send(w http.ResponseWriter, r *http.Request, wanted plan.Bundle, f form) error {
	header := w.Header()
	setHeaders(header)
	switch f {
	case formGzip:
		return h.sendGzip(w, r, wanted)
	case formPlain:
		return h.sendTar(w, r, wanted)
	case formFile, formZstd:
	}
	content, err := h.open(r, wanted)
	if err != nil {
		return wire.BundleError(err)
	}
	defer func() { _ = content.Close() }()
	if content.whole == nil {
		describe(header, f)
		stream(w, content)
		return nil
	}
	tag := tagOf(f, content.sum)
	if refuses(r.Header, tag) {
		refuse(w, http.StatusPreconditionFailed, "the bundle's bytes are others than If-Match wants")
		return nil
	}
	describe(header, f)
	header.Set("ETag", tag)
	if f.coding() != "" {
		// ServeContent leaves the length of an encoding out, in case a proxy in between does the
		// encoding; none does.
		header.Set("Content-Length", strconv.FormatInt(content.size, 10))
	}
	http.ServeContent(w, readable(r), "", time.Time{}, content.whole)
	return nil
}

// sendTar answers with the tar, which is made of the stored bytes while it is sent. A range of it costs what all before
// it costs, so there is one for a request.
func (h *handler) sendTar(w http.ResponseWriter, r *http.Request, wanted plan.Bundle) error {
	tag := tagOf(formPlain, wanted.Digest)
	if refuses(r.Header, tag) {
		refuse(w, http.StatusPreconditionFailed, "the bundle's bytes are others than If-Match wants")
		return nil
	}
	w.Header().Set("ETag", tag)
	if has(r.Header, tag) { // the tag is known without the bytes, which may have to be fetched
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	blob, done, err := h.openToEncode(r, wanted)
	if err != nil {
		w.Header().Del("ETag")
		return err
	}
	defer done()
	describe(w.Header(), formPlain)
	content := &tarFile{blob: blob}
	defer func() { _ = content.Close() }()
	r = readable(r)
	if strings.Contains(r.Header.Get("Range"), ",") {
		r.Header = r.Header.Clone()
		r.Header.Del("Range")
	}
	http.ServeContent(w, r, "", time.Time{}, content)
	if content.failure() != nil {
		panic(http.ErrAbortHandler) //nolint:forbidigo // how net/http is told to break a connection or a stream
	}
	return nil
}

// sendGzip answers with the tar in gzip, which is made while it is sent: it has no length and no ranges. Its tag is weak,
// because the bytes depend on the compressor, and replicas may have others.
func (h *handler) sendGzip(w http.ResponseWriter, r *http.Request, wanted plan.Bundle) error {
	header, tag := w.Header(), tagOf(formGzip, wanted.Digest)
	if refuses(r.Header, "") { // a weak tag equals none in a strong comparison
		refuse(w, http.StatusPreconditionFailed, "the bytes of a bundle in gzip have no strong tag that If-Match could want")
		return nil
	}
	header.Set("ETag", "W/"+tag)
	if has(r.Header, tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	blob, done, err := h.openToEncode(r, wanted)
	if err != nil {
		header.Del("ETag")
		return err
	}
	defer done()
	describe(header, formGzip)
	header.Set("Accept-Ranges", "none")
	if r.Method == http.MethodHead {
		return nil
	}
	if err := compress(w, blob); err != nil {
		panic(http.ErrAbortHandler) //nolint:forbidigo // how net/http is told to break a connection or a stream
	}
	return nil
}

// openToEncode opens the stored bytes of a bundle, and for a GET waits for an encoder. The caller calls done.
func (h *handler) openToEncode(r *http.Request, wanted plan.Bundle) (blob *cas.Blob, done func(), err error) {
	if blob, err = h.p.Cache.Open(r.Context(), wanted); err != nil {
		return nil, nil, wire.BundleError(err)
	}
	free := func() {}
	if r.Method == http.MethodGet {
		id, _ := identity.FromContext(r.Context()) // find has let none but clusters in
		if free, err = h.encoder.acquire(r.Context(), id.Name); err != nil {
			_ = blob.Close()
			return nil, nil, err
		}
	}
	return blob, func() {
		free()
		_ = blob.Close()
	}, nil
}

// describe sets the headers about the body.
func describe(header http.Header, f form) {
	header.Set("Content-Type", f.mediaType())
	if coding := f.coding(); coding != "" {
		header.Set("Content-Encoding", coding)
	}
}

// stream answers with bytes that are still coming. When they turn out wrong the answer is broken
// off, so that it is not taken for complete. It has no tag: which bytes these are is known at their
// end.
func stream(w http.ResponseWriter, growing io.Reader) {
	w.Header().Set("Accept-Ranges", "none")
	if _, err := io.Copy(w, growing); err != nil {
		panic(http.ErrAbortHandler) //nolint:forbidigo // how net/http is told to break a connection or a stream
	}
}

// content is the stored bytes of a bundle, open for reading.
type content struct {
	io.ReadCloser

	// whole is the same reader, where all is there: a file, which the kernel copies. Nil while the
	// bundle is being filled.
	whole io.ReadSeeker
	size  int64
	// sum is the digest of the bytes.
	sum digest.Digest
}

// open opens the stored bytes; the caller closes them. It waits for the whole of a bundle that is being filled
// unless the answer is nothing but its bytes from the first to the last.
func (h *handler) open(r *http.Request, wanted plan.Bundle) (content, error) {
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

// tagOf makes the tag of a form of which sum is the digest: of the stored bytes where these are
// sent, which depend on compressors, of which replicas may have different versions, so that clients
// do not join pieces of two; and otherwise of the tar, which is the same everywhere.
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
