// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/propagation"

	"github.com/leatdev/leat/internal/kit/timeouts"
	"github.com/leatdev/leat/internal/runtime/serve"
)

var (
	// errSilent ends a request that the server has received and does not answer.
	errSilent = errors.New("server does not answer")
	// errHints ends a request whose server sends too many informational answers.
	errHints = errors.New("server sends too many informational answers")
)

// server answers requests of one server's paths: the API server's, or a service's.
type server struct {
	// name is the server's name in messages.
	name string
	// base is its URL, and prefix the beginning of its paths.
	base   *url.URL
	prefix string
	// silences ends requests that the server takes too long to answer. Nil: no limit.
	silences *timeouts.Queue
	// scrub removes headers that the server must not receive.
	scrub func(http.Header)
	// tidy removes headers that the server must not send. Nil: all are passed on.
	tidy     func(http.Header)
	buffers  *serve.CopyBuffers
	logger   *slog.Logger
	errorLog *log.Logger
}

// rewrite builds the request for the server.
func (s *server) rewrite(r *httputil.ProxyRequest) {
	serve.KeepBody(r)
	out := r.Out
	out.URL.Scheme, out.URL.Host, out.Host = s.base.Scheme, s.base.Host, ""
	base := strings.TrimRight(s.base.Path, "/")
	out.URL.Path = base + strings.TrimPrefix(r.In.URL.Path, s.prefix)
	if raw := r.In.URL.RawPath; raw != "" {
		out.URL.RawPath = base + strings.TrimPrefix(raw, s.prefix)
	}
	out.URL.RawQuery = r.In.URL.RawQuery // as it came; the proxy would drop parameters that it cannot parse
	out.Trailer = nil                    // it could carry fields that the header must not
	s.scrub(out.Header)
	if _, set := out.Header["User-Agent"]; !set {
		out.Header.Set("User-Agent", "") // otherwise the transport adds its own
	}
}

// requestURI returns the request target for the server, byte for byte.
func (s *server) requestURI(r *http.Request) string {
	return strings.TrimRight(s.base.EscapedPath(), "/") + strings.TrimPrefix(r.RequestURI, s.prefix)
}

// answer returns a proxy that sends a request over the transport, and its answer back.
func (s *server) answer(transport http.RoundTripper) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		// Answers of unknown length, such as watches, are flushed immediately by default.
		Rewrite:    s.rewrite,
		Transport:  transport,
		BufferPool: s.buffers,
		ModifyResponse: func(res *http.Response) error {
			s.passOn(res.Header)
			return nil
		},
		ErrorHandler: s.unreachable,
		ErrorLog:     s.errorLog,
	}
}

// passOn prepares the header of the server's answer.
func (s *server) passOn(header http.Header) {
	for name := range header {
		if strings.HasPrefix(name, leatPrefix) {
			header.Del(name) // only the agent may set it
		}
	}
	if s.tidy != nil {
		s.tidy(header)
	}
}

// unreachable answers in the server's place.
func (s *server) unreachable(w http.ResponseWriter, r *http.Request, err error) {
	cause := context.Cause(r.Context())
	if cause != nil && !errors.Is(cause, errSilent) && !errors.Is(cause, errHints) {
		return // the caller is gone
	}
	// The log names the trace.
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	s.logger.WarnContext(ctx, "request could not be forwarded",
		slog.String("server", s.name), slog.Any("error", err))
	dialed, timeout := classify(err)
	answer := problem{
		code: http.StatusBadGateway, kubeReason: "BadGateway", reason: "CLUSTER_UNREACHABLE",
		message: "the connection to " + s.name + " failed before it answered; check whether the request took effect before you repeat it",
	}
	switch {
	case !dialed && timeout:
		answer.message = fmt.Sprintf("the agent cannot connect to %s: it does not accept the connection within %v; check it and the network",
			s.name, dialTimeout)
		answer.code, answer.kubeReason = http.StatusGatewayTimeout, "Timeout"
	case !dialed:
		answer.message = fmt.Sprintf("the agent cannot connect to %s; check it and the network", s.name)
	case errors.Is(cause, errSilent) || timeout:
		answer.code, answer.kubeReason, answer.reason = http.StatusGatewayTimeout, "Timeout", "DEADLINE_EXCEEDED"
		answer.message = fmt.Sprintf("%s received the request and has not answered within %v; check whether it took effect before you repeat it",
			s.name, s.silences.After())
	}
	answer.write(w, r)
}

// classify reports whether the dial failed, and whether a timeout ended the request.
func classify(err error) (dialed, timeout bool) {
	var dial *dialError
	var op *net.OpError
	var network net.Error
	dialed = !errors.As(err, &dial) && (!errors.As(err, &op) || op.Op != "dial")
	return dialed, errors.As(err, &network) && network.Timeout() || errors.Is(err, context.DeadlineExceeded)
}
