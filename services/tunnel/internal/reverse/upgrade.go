// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
	"golang.org/x/net/http/httpguts"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// Path is where agents connect.
const Path = "/tunnel/v1/connect"

// ServeHTTP implements http.Handler. A connection that was handed over lives on when it has
// returned.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status, err := checkUpgrade(r); err != nil {
		w.Header().Set("Allow", http.MethodGet)
		if r.ProtoMajor == 1 { // HTTP/2 forbids these
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", Protocol)
		}
		rpcerr.WriteHTTP(statusWriter{ResponseWriter: w, status: status}, r, err)
		return
	}
	info, err := h.admit(r.Context(), r.Header, r.RemoteAddr)
	if err != nil {
		rpcerr.WriteHTTP(w, r, err)
		return
	}
	begin := h.takeOver
	info.Transport = transportUpgrade
	if asksFor(r, "websocket") {
		begin, info.Transport = h.acceptWebSocket, transportWebSocket
	}
	conn, err := begin(w, r, info)
	if err != nil {
		h.logFailed(r.Context(), info, err)
		return
	}
	h.hold(context.WithoutCancel(r.Context()), info, conn)
}

// checkUpgrade refuses requests that cannot become a tunnel, with the HTTP status for it.
func checkUpgrade(r *http.Request) (int, error) {
	switch {
	case r.ProtoMajor != 1:
		return http.StatusHTTPVersionNotSupported, rpcerr.New(connect.CodeUnimplemented, errorsv1.Reason_REASON_UNIMPLEMENTED,
			"the tunnel is opened by an HTTP/1.1 request: connect again without HTTP/2, or call leat.tunnel.v1.TunnelService/Connect")
	case r.Method != http.MethodGet:
		return http.StatusMethodNotAllowed, rpcerr.New(connect.CodeUnimplemented, errorsv1.Reason_REASON_UNIMPLEMENTED,
			"the tunnel is opened by a GET request")
	case !asksFor(r, Protocol) && !asksFor(r, "websocket"):
		return http.StatusUpgradeRequired, rpcerr.New(connect.CodeUnimplemented, errorsv1.Reason_REASON_UNIMPLEMENTED,
			"this address speaks only the protocols "+Protocol+" and websocket: send Connection: Upgrade and one of them as Upgrade, "+
				"and check that no proxy in between removes them")
	default:
		return 0, nil
	}
}

// asksFor reports whether the request wants to continue in another protocol.
func asksFor(r *http.Request, protocol string) bool {
	return httpguts.HeaderValuesContainsToken(r.Header["Connection"], "Upgrade") &&
		httpguts.HeaderValuesContainsToken(r.Header["Upgrade"], protocol)
}

// statusWriter answers with another status than the error's code has: HTTP has numbers for a
// missing upgrade that no code of a call maps to.
type statusWriter struct {
	http.ResponseWriter

	status int
}

// WriteHeader implements http.ResponseWriter.
func (w statusWriter) WriteHeader(int) { w.ResponseWriter.WriteHeader(w.status) }
