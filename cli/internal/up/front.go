// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/contract/hubroutes"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/runtime/serve"
)

// front is the one origin of the hub: it passes each request on to the service that
// [hubroutes.Lead] names, as a proxy in front of a larger hub does. A browser would otherwise ask for
// permission at each URL of the tunnel, and would not trust its certificate.
type front struct {
	services map[hubroutes.Service]*backend
	logger   *slog.Logger
}

// backend passes requests on to a service, by the version of HTTP in which they came: upgrades need
// HTTP/1.1, and gRPC needs HTTP/2.
type backend struct{ http1, http2 *httputil.ReverseProxy }

// newFront returns the front of services at these URLs, whose certificates are of roots.
func newFront(urls map[hubroutes.Service]string, roots *x509.CertPool, logger *slog.Logger) (*front, error) {
	f := &front{services: map[hubroutes.Service]*backend{}, logger: logger}
	for service, text := range urls {
		target, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("front of %s: %w", service, err)
		}
		proxy := func(version func(*http.Protocols)) *httputil.ReverseProxy {
			transport := &http.Transport{
				Protocols: new(http.Protocols), TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
				DisableCompression: true, // bodies pass as they are
			}
			version(transport.Protocols)
			return &httputil.ReverseProxy{
				Rewrite:       func(r *httputil.ProxyRequest) { rewrite(r, target) },
				Transport:     transport,
				FlushInterval: -1, // streams may be quiet for long
				ModifyResponse: func(res *http.Response) error {
					noteVerified(res)
					return nil
				},
				ErrorHandler: f.fail,
				ErrorLog:     slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
			}
		}
		f.services[service] = &backend{
			http1: proxy(func(p *http.Protocols) { p.SetHTTP1(true) }),
			http2: proxy(func(p *http.Protocols) {
				p.SetHTTP2(target.Scheme == "https")
				p.SetUnencryptedHTTP2(target.Scheme == "http")
			}),
		}
	}
	return f, nil
}

// rewrite sends a request on to a service under its own host, which the service compares with the
// origin of a page.
func rewrite(r *httputil.ProxyRequest, target *url.URL) {
	r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
	r.Out.Host = r.In.Host
	r.SetXForwarded()
}

// noteVerified counts a caller as known whom a service has answered. The services themselves bound
// callers without a token; the front has one bound for all.
func noteVerified(res *http.Response) {
	if res.StatusCode < http.StatusBadRequest {
		identity.Verified(res.Request.Context())
	}
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	service, ok := hubroutes.Lead(r.URL.Path)
	to := f.services[service]
	switch {
	case !ok || to == nil:
		http.NotFound(w, r)
	case r.ProtoMajor == 2:
		to.http2.ServeHTTP(w, r)
	default:
		to.http1.ServeHTTP(w, r)
	}
}

// fail answers for a service that does not.
func (f *front) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the caller has gone
	}
	f.logger.WarnContext(r.Context(), "service not reached", slog.String("path", r.URL.Path), slog.Any("error", err))
	rpcerr.WriteHTTP(w, r, rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE, "a service of the hub does not answer; try again"))
}

// startFront serves the front at the hub's port.
func (h *hub) startFront(ctx context.Context) error {
	log, err := h.openLog("front")
	if err != nil {
		return err
	}
	roots, err := h.roots()
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(log, nil))
	handler, err := newFront(map[hubroutes.Service]string{
		hubroutes.Distributor: h.distributorURL(), hubroutes.GitCache: h.gitcacheURL(), hubroutes.Tunnel: h.tunnelURL(),
	}, roots, logger)
	if err != nil {
		return err
	}
	h.group.Go(ctx, "front", h.dir.Log("front"), func(ctx context.Context) error {
		return serve.Run(ctx, serve.Params{
			Config: serve.Config{Listener: h.ports.front, DrainTimeout: drainTimeout}, Public: handler, Logger: logger,
		})
	})
	return nil
}
