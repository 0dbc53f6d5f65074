// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/leatdev/leat/internal/serve"
	"github.com/leatdev/leat/services/tunnel/internal/audit"
)

// agentHost is the name that requests carry through the tunnel. The agent puts its API server's in its place.
const agentHost = "kubernetes"

// agentPrefix is where the agent serves its API server. Its own calls, and services, have none.
const agentPrefix = "/kubernetes"

// lingerTimeout is how long the rest of a body may keep a connection whose request was answered with an error.
const lingerTimeout = 5 * time.Second

// forward carries one request through a stream. It lives in one goroutine, but for the upload's counters.
type forward struct {
	*call

	stream   stream
	upload   *upload
	download *download
	failure  *refusal // what the hub answered itself
	cause    func() error
	answered func()
	returned bool   // the answer was written completely
	linger   func() // waits for the caller whose connection was hijacked, and closes the connection
}

func newForward(c *call, stream stream) *forward {
	return &forward{call: c, stream: stream, linger: func() {}}
}

// run returns when the answer is written. The server's handler is aborted when it could not be, so that the caller
// never takes half an answer for a whole one.
func (f *forward) run() {
	ctx, cancel := context.WithCancelCause(f.r.Context())
	defer cancel(nil)
	f.cause = func() error { return context.Cause(ctx) }
	f.answered = func() { cancel(errAnswered) }
	defer f.close()
	defer f.watchOver(ctx, cancel)()
	defer f.cutStalled(cancel)()

	req := f.r.WithContext(ctx)
	f.prepareUpload(req)
	f.proxy(f.stream).ServeHTTP(f.w, req)
	f.returned = true
}

// proxy sends a request by way of the transport and writes the answer. It flushes one of unknown length, such as a watch,
// as it comes. One whose length is known needs no flush, and one without a body must not have one: its headers are its end.
func (f *forward) proxy(transport http.RoundTripper) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:        f.rewrite,
		Transport:      transport,
		ErrorLog:       f.errorLog,
		BufferPool:     f.buffers,
		ModifyResponse: f.modifyResponse,
		ErrorHandler:   f.fail,
	}
}

// prepareUpload counts the body and lets an answer be written while the caller still sends it: without that, an
// HTTP/1.1 server reads the rest of the body before it writes the first byte of an early refusal.
func (f *forward) prepareUpload(req *http.Request) {
	if req.Body == nil || req.ContentLength == 0 {
		return
	}
	f.upload = &upload{ReadCloser: req.Body, moved: func(n int) error { return f.moved(&f.instruments.received, n) }}
	req.Body = f.upload
	if req.ProtoMajor == 1 {
		_ = http.NewResponseController(f.w).EnableFullDuplex() // other writers than the server's can always do it
	}
}

// rewrite makes the agent's request of the caller's. Hop-by-hop headers are gone already.
func (f *forward) rewrite(p *httputil.ProxyRequest) {
	serve.KeepBody(p)
	f.address(p.Out, p.In.URL.ForceQuery)
	f.deps.Propagator.Inject(p.Out.Context(), propagation.HeaderCarrier(p.Out.Header))
}

func (f *forward) modifyResponse(res *http.Response) error {
	if res.Header == nil {
		res.Header = http.Header{}
	}
	scrubResponse(res)
	confine(res.Header, atClusterHost(f.r))
	if f.uploadUnread() && res.StatusCode >= http.StatusMultipleChoices {
		// The rest of the body must not be read as the next request.
		res.Header.Set("Connection", "close")
	}
	if len(res.Trailer) > 0 && res.StatusCode != http.StatusNotModified && res.Request.Method != http.MethodHead {
		// HTTP/1.1 has no trailers behind a body of known length.
		res.Header.Del("Content-Length")
		res.ContentLength = -1
	}
	f.download = &download{ReadCloser: res.Body, mapError: f.mapReadError, answered: f.answered, res: res}
	res.Body = f.download
	return nil
}

// mapReadError ends a drained watch as API servers end watches: without an error.
func (f *forward) mapReadError(err error) error {
	if errors.Is(f.cause(), errDrained) && f.target.isWatch() {
		return io.EOF
	}
	return err
}

// fail answers in place of an agent that did not.
func (f *forward) fail(w http.ResponseWriter, r *http.Request, err error) {
	if f.failure = refuseRoundTrip(r.Context(), err, r.Method, f.target.cluster); f.overdraft() != nil {
		f.failure = refuseQuota(f.overdraft())
	}
	f.fault(f.failure)
	f.deps.Logger.DebugContext(r.Context(), "request not carried out",
		slog.String("leat.cluster", f.target.cluster), slog.String("reason", f.failure.reason), slog.String("error", err.Error()))
	if f.uploadUnread() {
		w.Header().Set("Connection", "close")
	}
	f.failure.write(w, f.r, f.target.cluster, f.traceID)
}

// uploadUnread reports whether the caller may still be sending on a connection that cannot tell the rest of this body
// from a next request.
func (f *forward) uploadUnread() bool {
	return f.r.ProtoMajor == 1 && f.upload != nil && !f.upload.ended.Load()
}

// close gives the stream back and records the outcome, however the request ended.
func (f *forward) close() {
	f.stream.Release()
	if f.uploadUnread() && f.w.status >= http.StatusMultipleChoices {
		_ = http.NewResponseController(f.w).SetReadDeadline(time.Now().Add(lingerTimeout))
	}
	result := audit.Result{
		Connection: f.stream.Connection(), Status: f.w.status, BytesOut: f.w.bytes, Outcome: f.outcome(),
	}
	if f.upload != nil {
		result.BytesIn = f.upload.bytes.Load()
	}
	switch {
	case f.failure != nil:
		result.Reason = f.failure.reason
	case f.overdraft() != nil:
		result.Reason = reasonQuota
	}
	f.finish(result)
	f.instruments.end(f.r.Context(),
		ending{outcome: result.Outcome, endless: f.target.isEndless() || isUpgrade(f.r), status: f.w.status}, f.began)
}

func (f *forward) outcome() audit.Outcome {
	switch cause := f.cause(); {
	case errors.Is(cause, errDrained):
		return audit.OutcomeDrained
	case errors.Is(cause, errRevoked):
		return audit.OutcomeRevoked
	case errors.Is(cause, errStalled):
		return audit.OutcomeStalled
	case f.overdraft() != nil:
		return audit.OutcomeExceeded
	case f.returned && f.failure == nil: // the caller may have hung up since
		return audit.OutcomeCompleted
	case errors.Is(cause, errUnrecorded):
		return audit.OutcomeInterrupted
	case cause != nil && !errors.Is(cause, errAnswered):
		return audit.OutcomeCanceled
	case f.failure != nil:
		return audit.OutcomeFailed
	case f.download != nil && f.download.failed != nil:
		return audit.OutcomeInterrupted
	default: // the answer could not be written
		return audit.OutcomeCanceled
	}
}
