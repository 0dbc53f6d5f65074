// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"context"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/runtime/crossorigin"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/services/distributor/internal/api/recorder"
	"github.com/leatdev/leat/services/distributor/internal/api/sessions"
)

// streamStallTimeout is how long a watcher may take nothing of its stream.
const streamStallTimeout = 30 * time.Second

// wing is one subject of the service.
type wing struct {
	// mount mounts what the wing serves. Nil: nothing.
	mount func(*calls)
	// work runs until its context is done. It continues while the server ends, for the calls that are finishing.
	work []func(context.Context) error
}

// calls mounts what wings serve, behind the checks that all calls share.
type calls struct {
	mux    *http.ServeMux
	server *rpc.Server
	// recorder records the calls of people.
	recorder connect.Interceptor
	// pages handle what people's browsers open, and pass everything else on. Links of other sites lead to them, so the
	// rules for calls from other origins do not hold there.
	pages []func(next http.Handler) http.Handler
}

// handler returns the handler of everything that wings serve.
func (s *spine) handler(wings []wing) (http.Handler, error) {
	recording, err := recorder.New(recorder.Params{Journal: s.records, Limits: s.view.Accounts(), Logger: s.logger, Meter: s.tel.Meter(scope)})
	if err != nil {
		return nil, err
	}
	server, err := rpc.NewServer(rpc.ServerParams{
		Telemetry: s.tel, Logger: s.logger, Verifier: s.verifier,
		Public: append(sessions.Public(),
			distributorv1connect.DistributorServiceEnrollProcedure,
			distributorv1connect.DistributorServiceRefreshTokenProcedure,
		),
	})
	if err != nil {
		return nil, err
	}
	origins, err := crossorigin.New(s.cfg.AllowedOrigins)
	if err != nil {
		return nil, err
	}
	c := &calls{mux: http.NewServeMux(), server: server, recorder: recording}
	for _, w := range wings {
		if w.mount != nil {
			w.mount(c)
		}
	}
	handler := origins.Wrap(c.mux)
	for _, before := range c.pages {
		handler = before(handler)
	}
	return handler, nil
}

// mount mounts the handler of a service, and returns it.
func (c *calls) mount(path string, service http.Handler) http.Handler {
	c.mux.Handle(path, c.server.Guard(service))
	return service
}

// stream mounts a call of a service that is quiet for long: it ends if the peer takes nothing, and needs small buffers.
func (c *calls) stream(procedure string, service http.Handler) {
	c.mux.Handle(procedure, serve.SmallFrames(serve.CutStalled(c.server.Guard(service), streamStallTimeout)))
}
