// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundlehttp

import (
	"io"
	"net/http"

	"go.opentelemetry.io/otel/propagation"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// NewHandler returns the handler of GET and HEAD /v1/bundles/{digest}. A cluster's agent reads the
// bundles that its plan names, or named lately. All others are not found, whether they exist or
// not: only the caller's own plans decide that.
func NewHandler(p HandlerParams) http.Handler {
	return identity.Authenticate(identity.Logged(p.Verifier, p.Logger), &handler{p: p, encoder: newEncoder()})
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
	if err := h.serve(w, r); err != nil {
		rpcerr.WriteHTTP(w, r, rpcerr.Redact(r.Context(), h.p.Logger, err))
	}
}

// serve returns an error only if nothing was written yet.
func (h *handler) serve(w http.ResponseWriter, r *http.Request) error {
	d, err := digest.Parse(r.PathValue("digest"))
	if err != nil {
		return rpcerr.Field("digest", "must be sha256: and 64 lower-case hexadecimal digits")
	}
	wanted, err := h.find(r.Context(), d)
	if err != nil {
		return err
	}
	caller, _ := identity.FromContext(r.Context())
	h.p.Costs.Asked(caller.Name)
	counted := &countingWriter{ResponseWriter: w}
	defer func() { h.p.Costs.Sent(caller.Name, counted.sent) }() // also of an answer that is broken off
	w = counted
	if served, err := h.serveDelta(w, r, wanted); served || err != nil {
		return err
	}
	f, ok := choose(r.Header)
	if !ok {
		setHeaders(w.Header())
		refuse(w, http.StatusNotAcceptable, "the request allows no encoding that there is: zstd, gzip, identity")
		return nil
	}
	return h.send(w, r, wanted, f)
}

// countingWriter counts the bytes of a body.
type countingWriter struct {
	http.ResponseWriter

	sent int64
}

// Write implements io.Writer.
func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.sent += int64(n)
	return n, err
}

// ReadFrom implements io.ReaderFrom, by which the kernel copies files to connections of HTTP/1.
func (w *countingWriter) ReadFrom(from io.Reader) (int64, error) {
	n, err := io.Copy(w.ResponseWriter, from)
	w.sent += n
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
