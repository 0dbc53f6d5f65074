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

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/serve"
)

// lingerTimeout is how long the rest of a body may keep a connection whose request was answered
// with an error.
const lingerTimeout = 5 * time.Second

// exchange carries one request through a stream, and the answer back. It belongs to the goroutine
// of the handler. Only the upload and the traffic are used by another goroutine, too.
type exchange struct {
	handler *Handler
	call    *call // answers refusals, and records the outcome
	request *request
	answer  *response
	traffic *traffic
	stream  stream

	upload   *upload   // nil: the request has no body
	download *download // nil: the agent has not answered
	failure  *refusal  // the answer that the hub gave itself
	// cause returns why the request was ended, and nil while it was not.
	cause     func() error
	answered  func() // ends the request, because its answer has no reader any more
	isWritten bool   // the answer was written completely
	linger    func() // waits for a caller whose connection was hijacked, and closes the connection
}

// run returns when the answer is written. It aborts the server's handler if the answer could not be
// written, so that the caller never takes half an answer for a whole one.
func (x *exchange) run() {
	ctx, cancel := context.WithCancelCause(x.request.in.Context())
	defer cancel(nil)
	x.cause = func() error { return context.Cause(ctx) }
	x.answered = func() { cancel(errAnswered) }
	defer x.close()
	defer x.watchOver(ctx, cancel)()
	defer x.cutStalled(cancel)()

	req := x.request.in.WithContext(ctx)
	x.prepareUpload(req)
	x.proxy(x).ServeHTTP(x.answer, req)
	x.isWritten = true
}

// watchOver ends the request when it must not continue: when the replica drains and the answer has
// no end of its own, or when the permission is withdrawn. The returned function stops it and waits
// for what it has begun.
func (x *exchange) watchOver(ctx context.Context, cancel context.CancelCauseFunc) (stop func()) {
	checks := &rechecks{
		timers: x.handler.rechecks, isAllowed: func() bool { return x.handler.isStillAllowed(ctx, x.request) }, cancel: cancel,
	}
	checks.start()
	if !x.request.target.isEndless() {
		return checks.stop
	}
	stayOpen := endAtDrain(ctx, cancel, x.handler.deps.Router.Ending(), 0)
	return func() {
		checks.stop()
		stayOpen()
	}
}

// cutStalled ends the request when its caller reads nothing of the answer for the stall timeout.
// Until then the caller holds a place, and memory, here, at the agent and at the API server. The
// returned function stops it.
//
// An upgraded connection is not cut. It belongs to the two sides, and a person may read the output
// of a command page by page.
func (x *exchange) cutStalled(cancel context.CancelCauseFunc) (stop func()) {
	guard := serve.GuardStalls(x.answer.ResponseWriter, x.handler.deps.StallTimeout, func() { cancel(errStalled) })
	x.answer.ResponseWriter = guard
	return guard.Stop
}

// RoundTrip implements http.RoundTripper: it sends a request to the agent, and measures the time
// that the hub itself takes before and afterwards.
func (x *exchange) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, measured := req.Context(), x.handler.instruments
	measured.delay(ctx, phaseRequest, x.call.began)
	res, err := x.stream.RoundTrip(req)
	if err == nil {
		arrived := time.Now()
		x.answer.began = func() { measured.delay(ctx, phaseResponse, arrived) }
	}
	return res, err
}

// proxy sends a request through transport and writes the answer. It flushes an answer of unknown
// length, such as a watch, as it arrives. An answer of known length needs no flush. One without a
// body must not be flushed: its headers are its end.
func (x *exchange) proxy(transport http.RoundTripper) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:        x.rewrite,
		Transport:      transport,
		ErrorLog:       x.handler.errorLog,
		BufferPool:     x.handler.buffers,
		ModifyResponse: x.modifyResponse,
		ErrorHandler:   x.fail,
	}
}

// prepareUpload counts the body, and allows an answer to be written while the caller still sends
// it. Without that, an HTTP/1.1 server reads the rest of the body before it writes the first byte
// of an early refusal.
func (x *exchange) prepareUpload(req *http.Request) {
	if req.Body == nil || req.ContentLength == 0 {
		return
	}
	x.upload = &upload{ReadCloser: req.Body, moved: x.traffic.receive}
	req.Body = x.upload
	if req.ProtoMajor == 1 {
		_ = http.NewResponseController(x.answer).EnableFullDuplex() // writers other than the server's can always do it
	}
}

// rewrite turns the caller's request into the agent's. Hop-by-hop headers are already removed.
func (x *exchange) rewrite(p *httputil.ProxyRequest) {
	serve.KeepBody(p)
	x.request.address(p.Out)
	x.handler.deps.Propagator.Inject(p.Out.Context(), propagation.HeaderCarrier(p.Out.Header))
}

func (x *exchange) modifyResponse(res *http.Response) error {
	if res.Header == nil {
		res.Header = http.Header{}
	}
	scrubResponse(res)
	confine(res.Header, clusterAt(x.request.in.Host, x.handler.hostSuffix) != "")
	if x.isUploadUnread() && res.StatusCode >= http.StatusMultipleChoices {
		// The rest of the body must not be read as the next request.
		res.Header.Set("Connection", "close")
	}
	if len(res.Trailer) > 0 && res.StatusCode != http.StatusNotModified && res.Request.Method != http.MethodHead {
		// HTTP/1.1 has no trailers behind a body of known length.
		res.Header.Del("Content-Length")
		res.ContentLength = -1
	}
	x.download = &download{ReadCloser: res.Body, mapError: x.mapReadError, answered: x.answered, res: res}
	res.Body = x.download
	return nil
}

// mapReadError ends a drained watch without an error, as API servers end watches.
func (x *exchange) mapReadError(err error) error {
	if errors.Is(x.cause(), errDrained) && x.request.target.isWatch() {
		return io.EOF
	}
	return err
}

// fail answers in place of an agent that did not answer.
func (x *exchange) fail(w http.ResponseWriter, r *http.Request, err error) {
	refused := refuseRoundTrip(r.Context(), err, r.Method, x.request.target.cluster)
	if overdraft := x.traffic.overdraft(); overdraft != nil {
		refused = refuseQuota(overdraft)
	}
	x.handler.deps.Logger.DebugContext(r.Context(), "request not carried out", slog.String("leat.cluster", x.request.target.cluster),
		slog.String("reason", refused.reason.String()), slog.String("error", err.Error()))
	if x.isUploadUnread() {
		w.Header().Set("Connection", "close")
	}
	x.giveUp(refused)
}

// giveUp answers the caller in place of the cluster.
func (x *exchange) giveUp(refused *refusal) {
	x.failure = refused
	x.call.refuse(refused)
}

// isUploadUnread reports whether the caller may still be sending on a connection that cannot
// distinguish the rest of this body from a next request.
func (x *exchange) isUploadUnread() bool {
	return x.request.in.ProtoMajor == 1 && x.upload != nil && !x.upload.ended.Load()
}

// close releases the stream and records the outcome, however the request ended.
func (x *exchange) close() {
	x.stream.Release()
	if x.isUploadUnread() && x.answer.status >= http.StatusMultipleChoices {
		_ = http.NewResponseController(x.answer).SetReadDeadline(time.Now().Add(lingerTimeout))
	}
	result := audit.Result{
		Connection: x.stream.Connection(), Status: x.answer.status, BytesOut: x.answer.bytes, Outcome: x.outcome(),
	}
	if x.upload != nil {
		result.BytesIn = x.upload.bytes.Load()
	}
	switch {
	case x.failure != nil:
		result.Reason = x.failure.reason
	case x.traffic.overdraft() != nil:
		result.Reason = reason.RateLimited
	}
	x.call.finish(result)
	in := x.request.in
	x.handler.instruments.end(in.Context(),
		ending{outcome: result.Outcome, endless: x.request.target.isEndless() || isUpgrade(in), status: x.answer.status}, x.call.began)
}

func (x *exchange) outcome() audit.Outcome {
	switch cause := x.cause(); {
	case errors.Is(cause, errDrained):
		return audit.OutcomeDrained
	case errors.Is(cause, errRevoked):
		return audit.OutcomeRevoked
	case errors.Is(cause, errStalled):
		return audit.OutcomeStalled
	case x.traffic.overdraft() != nil:
		return audit.OutcomeExceeded
	case x.isWritten && x.failure == nil: // the caller may have hung up since
		return audit.OutcomeCompleted
	case errors.Is(cause, errUnrecorded):
		return audit.OutcomeInterrupted
	case cause != nil && !errors.Is(cause, errAnswered):
		return audit.OutcomeCanceled
	case x.failure != nil:
		return audit.OutcomeFailed
	case x.download != nil && x.download.failed != nil:
		return audit.OutcomeInterrupted
	default: // the answer could not be written
		return audit.OutcomeCanceled
	}
}
