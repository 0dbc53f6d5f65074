// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundlehttp

import (
	"net/http"
	"time"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
)

// serveDelta answers a request that names a bundle which the caller has, if there is a delta from
// that one. Otherwise it returns false and has written nothing: the bundle itself is a correct
// answer, too. That is also the answer to a caller that may not read the bundle it names, which
// therefore learns nothing about it.
func (h *handler) serveDelta(w http.ResponseWriter, r *http.Request, wanted plan.Bundle) (isServed bool, err error) {
	text := r.URL.Query().Get("from")
	if text == "" {
		return false, nil
	}
	from, err := digest.Parse(text)
	if err != nil {
		return false, rpcerr.Field("from", "must be sha256: and 64 lower-case hexadecimal digits")
	}
	caller, _ := identity.FromContext(r.Context())
	base, ok := h.p.Plans.Bundle(caller.Name, from)
	if !ok {
		h.p.Deltas.Declined(r.Context())
		return false, nil
	}
	delta := h.p.Deltas.Open(r.Context(), base, wanted)
	if delta == nil {
		h.p.Deltas.Declined(r.Context())
		return false, nil
	}
	defer func() { _ = delta.Close() }()
	header := w.Header()
	setHeaders(header)
	header.Set("Content-Type", bundle.DeltaMediaType)
	header.Set("ETag", delta.Tag)
	var saved int64
	if r.Method == http.MethodGet && r.Header.Get("Range") == "" {
		saved = delta.Full - delta.Size
	}
	h.p.Deltas.Served(r.Context(), saved)
	http.ServeContent(w, readable(r), "", time.Time{}, delta.File)
	return true, nil
}
