// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package vaultkv

import (
	"net/http"
	"net/http/httptest"

	"github.com/leatdev/leat/services/distributor/internal/config/backendcall"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// OpenOver returns the engine that a handler serves, without a network.
func OpenOver(backend *catalog.ConfigBackend, handler http.Handler) (*Backend, error) {
	b, err := Open(backend, Params{})
	if err != nil {
		return nil, err
	}
	b.client, err = backendcall.New(backendcall.Params{Carrier: carrier{handler}})
	return b, err
}

type carrier struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (c carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w.Result(), nil
}
