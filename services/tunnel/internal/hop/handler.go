// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package hop

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/services/tunnel/internal/kubeapi"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// Deps are the collaborators of a [Handler]. All are required.
type Deps struct {
	// Self is this replica.
	Self relay.Replica
	// Verifier accepts the tokens that other replicas make for this one.
	Verifier identity.Verifier
	// Table has the connections of this replica.
	Table *session.Table
	// Sink records the requests that are carried out here. Required.
	Sink audit.Sink
	// Logger receives refused hops.
	Logger *slog.Logger
	// Tracer and Propagator continue the traces of requests.
	Tracer     trace.Tracer
	Propagator propagation.TextMapPropagator
}

// Handler carries out requests that other replicas pass on.
type Handler struct {
	deps     Deps
	errorLog *log.Logger
	buffers  serve.CopyBuffers
}

// NewHandler returns the endpoint.
func NewHandler(deps Deps) *Handler {
	return &Handler{deps: deps, errorLog: slog.NewLogLogger(deps.Logger.Handler(), slog.LevelDebug)}
}

// errEnding ends an answer that has no end of its own.
var errEnding = errors.New("replica is shutting down")

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	caller, err := h.admit(r)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	if err := h.record(r, caller); err != nil {
		h.deps.Logger.ErrorContext(r.Context(), "audit record not written", slog.String("error", err.Error()))
		writeError(w, h.deps.Self.ID, session.ErrOffline) // the first replica tries another connection, or reports that there is none
		return
	}
	span := h.startSpan(r)
	if span != nil {
		defer span.End()
	}
	stream, err := h.deps.Table.Open(session.Target{
		Cluster: r.Header.Get(headerCluster), ClusterUID: r.Header.Get(headerClusterUID),
	})
	if err != nil {
		unanswered(r.Context(), span, err)
		writeError(w, h.deps.Self.ID, err)
		return
	}
	defer stream.Release()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer h.endWith(ctx, cancel, r.Header.Get(headerEnds))()
	p := &hopRequest{
		self: h.deps.Self.ID, propagator: h.deps.Propagator, ctx: ctx, cancel: cancel, span: span,
		isWatch: r.Header.Get(headerEnds) == endsWatch,
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: stream, ErrorLog: h.errorLog, BufferPool: &h.buffers,
		ModifyResponse: p.modifyResponse, ErrorHandler: p.fail,
	}
	proxy.ServeHTTP(serve.AsItIs(w), r.WithContext(ctx))
}

// record writes an audit record of the request that this replica carries out, with the user to
// impersonate. The first replica records the caller and the decision. This record exists in case an
// attacker impersonates a replica.
func (h *Handler) record(r *http.Request, caller identity.Identity) error {
	path, query, _ := strings.Cut(strings.TrimPrefix(r.RequestURI, Prefix), "?")
	uri := path
	if query != "" {
		uri += "?" + query
	}
	inCluster := strings.TrimPrefix(path, kubeapi.AgentPrefix) // as the API server gets it, and as rules name it
	id := rand.Text()
	user, groups, uid, extra := impersonated(r.Header)
	return audit.Hop(r.Context(), h.deps.Sink, audit.Request{
		ID: id, TraceID: traceOf(r.Header, id), Subject: caller.Subject(), SubjectUID: r.Header.Get(headerHop), TokenID: caller.TokenID,
		Cluster: r.Header.Get(headerCluster), Method: r.Method, URI: uri, Attributes: kubeapi.Parse(r.Method, inCluster, query).Recorded(),
		SourceAddress: r.RemoteAddr, UserAgent: r.UserAgent(),
	}, audit.Decision{Allowed: true, User: user, UID: uid, Groups: groups, Extra: extra})
}

// impersonated returns the user that the agent will be asked to impersonate.
func impersonated(header http.Header) (user string, groups []string, uid string, extra map[string][]string) {
	const prefix = "Impersonate-Extra-"
	for name, values := range header {
		if strings.HasPrefix(name, prefix) {
			if extra == nil {
				extra = map[string][]string{}
			}
			extra[strings.ToLower(name[len(prefix):])] = slices.Clone(values)
		}
	}
	return header.Get("Impersonate-User"), slices.Clone(header["Impersonate-Group"]), header.Get("Impersonate-Uid"), extra
}

// traceOf returns the trace id of a traceparent (W3C), or id if the header is missing.
func traceOf(header http.Header, id string) string {
	if parts := strings.Split(header.Get("Traceparent"), "-"); len(parts) == 4 && len(parts[1]) == 32 {
		return parts[1]
	}
	return id
}

// admit returns the identity of the replica that sends a hop, or an error about the request's
// defect.
func (h *Handler) admit(r *http.Request) (identity.Identity, error) {
	token, ok := identity.BearerToken(r.Header)
	if !ok {
		return identity.Identity{}, errors.New("the request has no token")
	}
	caller, err := h.deps.Verifier.Verify(r.Context(), token)
	switch {
	case err != nil:
		return caller, fmt.Errorf("the token is not valid: %w", err)
	case caller.Kind != identity.KindService || caller.Name != ServiceName:
		return caller, errors.New("the token is not one of this service")
	}
	identity.Verified(r.Context())
	switch {
	case r.ProtoMajor != 2:
		return caller, errors.New("the request must come over HTTP/2")
	case len(r.Header[headerHop]) != 1 || r.Header.Get(headerHop) == h.deps.Self.ID:
		return caller, errors.New("the request must come from one other replica")
	case r.Header.Get(headerCluster) == "" || strings.HasPrefix(strings.TrimPrefix(r.RequestURI, Prefix), Prefix):
		return caller, errors.New("the request must be for one agent")
	}
	return caller, nil
}

// refuse answers a hop that is not valid. The answer does not give the reason: the caller may be
// anyone.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	h.deps.Logger.DebugContext(r.Context(), "hop refused",
		slog.String("client.address", r.RemoteAddr), slog.String("error", err.Error()))
	w.Header().Set(headerHop, h.deps.Self.ID)
	w.Header().Set(headerError, errorRefused)
	w.WriteHeader(http.StatusForbidden)
}

// endWith ends an answer that has no end of its own when this replica ends. The returned function
// stops that.
func (h *Handler) endWith(ctx context.Context, cancel context.CancelCauseFunc, ends string) (stop func()) {
	if ends == "" {
		return func() {}
	}
	return wake.AfterClose(ctx, h.deps.Table.Ending(), func(context.Context) { cancel(errEnding) })
}

// hopRequest is one request on its way to the agent.
type hopRequest struct {
	self       string // the id of this replica
	propagator propagation.TextMapPropagator
	ctx        context.Context //nolint:containedctx // of the one request
	cancel     context.CancelCauseFunc
	isWatch    bool
	span       trace.Span // nil: the request is not traced
}

// rewrite turns the hop into the agent's request.
func (p *hopRequest) rewrite(r *httputil.ProxyRequest) {
	serve.KeepBody(r)
	path, query, found := strings.Cut(strings.TrimPrefix(r.In.RequestURI, Prefix), "?")
	r.Out.URL = &url.URL{Scheme: "http", Host: agentHost, Opaque: path, RawQuery: query, ForceQuery: found && query == ""}
	r.Out.Host = agentHost
	r.Out.Trailer = nil
	r.Out.Header.Del("Authorization")
	scrub(r.Out.Header)
	if p.span != nil {
		p.propagator.Inject(trace.ContextWithSpan(p.ctx, p.span), propagation.HeaderCarrier(r.Out.Header))
	}
}

func (p *hopRequest) modifyResponse(res *http.Response) error {
	answered(p.span, res.StatusCode)
	scrub(res.Header)
	res.Header.Set(headerHop, p.self)
	res.Body = &download{ReadCloser: res.Body, request: p}
	return nil
}

// fail answers in place of an agent that did not answer.
func (p *hopRequest) fail(w http.ResponseWriter, _ *http.Request, err error) {
	if errors.Is(context.Cause(p.ctx), errEnding) {
		err = session.ErrLost
	}
	unanswered(p.ctx, p.span, err)
	writeError(w, p.self, err)
}

// download is the body of the agent's answer.
type download struct {
	io.ReadCloser

	request *hopRequest
}

// Read implements io.Reader. A watch that this replica ends looks as if the API server had ended
// it.
func (d *download) Read(b []byte) (int, error) {
	n, err := d.ReadCloser.Read(b)
	if err != nil && d.request.isWatch && errors.Is(context.Cause(d.request.ctx), errEnding) {
		err = io.EOF
	}
	return n, err
}

// Close implements io.Closer. The HTTP/2 client's own Close waits for the end of the upload, which
// may wait for the end of this answer.
func (d *download) Close() error {
	d.request.cancel(nil)
	return d.ReadCloser.Close()
}
