// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
)

// The internal listener has few callers, which send very little.
const (
	internalConnections = 256
	internalRequests    = 200
	internalStreams     = 20
	internalWindow      = 64 << 10
)

// Internal is the internal listener of a service. It may answer before the service can serve
// anything else, for example while it waits for its database: probes then see a process that lives
// and is not ready, and do not kill it.
type Internal struct {
	// drain closes when the service begins to stop. Run closes it.
	drain chan struct{}
	close func()
}

// StartInternal begins to answer on the internal listener with p.Internal, as far as the settings
// name a listener. The caller passes it on to [Run] in Params.Started, and closes it if it does not
// come to that.
func StartInternal(ctx context.Context, p Params) (*Internal, error) {
	internal := &Internal{drain: make(chan struct{}), close: func() {}}
	if p.Internal == nil {
		return internal, nil
	}
	listener, err := p.listenInternal()
	if listener == nil || err != nil {
		return internal, err
	}
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	base = context.WithValue(base, drainKey{}, (<-chan struct{})(internal.drain))
	server := newServer(base, p.Internal, p.Logger)
	server.HTTP2.MaxConcurrentStreams = internalStreams
	server.HTTP2.MaxReceiveBufferPerStream, server.HTTP2.MaxReceiveBufferPerConnection = internalWindow, internalWindow
	callers, err := newAnonymous(Config{AnonymousConnections: internalConnections, AnonymousRequests: internalRequests}, nil, p.Logger, nil)
	if err != nil {
		cut()
		return internal, errors.Join(err, listener.Close())
	}
	callers.install(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(turnListener{listener}) }()
	p.Logger.InfoContext(base, "serving health and metrics", slog.String("address", listener.Addr().String()))
	internal.close = sync.OnceFunc(func() {
		defer cut()
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			p.Logger.ErrorContext(base, "internal listener ended", slog.Any("error", err))
		}
	})
	return internal, nil
}

// Close stops answering. It may be called more than once.
func (i *Internal) Close() { i.close() }
