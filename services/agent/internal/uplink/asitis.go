// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"net/http"

	"github.com/leatdev/leat/internal/serve"
)

// asItIs writes an answer without a type without one. A server of net/http would guess.
type asItIs struct {
	http.ResponseWriter

	request *http.Request
}

// WriteHeader implements http.ResponseWriter.
func (w *asItIs) WriteHeader(status int) {
	if _, set := w.Header()["Content-Type"]; !set && status >= http.StatusOK {
		w.Header()["Content-Type"] = nil
	}
	serve.CorkHead(w.request, status, w.Header())
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the server's own writer.
func (w *asItIs) Unwrap() http.ResponseWriter { return w.ResponseWriter }
