// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package webhook receives notices of pushes from Git hosts, and has the repositories they name
// fetched at once instead of at their next poll.
//
// Its promises:
//
//   - A webhook only ever makes the service poll an upstream earlier. Its refs and commits are
//     not believed.
//   - A delivery is proven by a secret before its body is parsed. It concerns no repository whose
//     secret is another, and its sender does not learn whether any repository was meant.
//   - Senders are bounded before they are known: the deliveries of one address, the bytes of bodies
//     in memory, and the deliveries that are verified at once. So are the deliveries about one
//     repository.
//   - One delivery causes one fetch, however often it is sent and whichever replicas receive it.
//   - What became of a delivery is recorded for people who may see its repository, after it was
//     answered. Senders without a secret cannot fill the record, nor push the accepted ones out.
//
// The locks of limits, bodies, memory and queue are never held together.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/instrument"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/hooklog"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/webhook/provider"
)

const (
	// defaultBody is the default bound on a delivery. GitHub sends up to 25 MiB, but a push beyond
	// the bound names hundreds of commits. The next poll finds it anyway.
	defaultBody = 512 << 10
	// readTimeout is how long a sender may take for the body.
	readTimeout = 10 * time.Second
)

// Pattern and RepositoryPattern are the routes of a [Handler]. RepositoryPattern names a
// repository, so that a delivery is compared with its secret alone, however many secrets there are.
const (
	Pattern           = "POST /webhooks/{provider}"
	RepositoryPattern = "POST /webhooks/{provider}/{repository}"
)

// Deliveries records, for all replicas, which deliveries one of them has received. Its methods may
// be called concurrently.
type Deliveries interface {
	// Remember keeps an id for the time keep. False: some replica keeps it already.
	Remember(ctx context.Context, id string, keep time.Duration) (bool, error)
	// Forget lets an id count as new again.
	Forget(ctx context.Context, id string) error
}

// Params configures a [Handler]. All fields are required except DefaultSecret and MaxBody.
type Params struct {
	Deliveries Deliveries
	Log        Log
	// Repositories returns all definitions that are known now.
	Repositories func() []mirror.Definition
	// Refresh has the repository of that name fetched soon, by whichever replica owns it. The error
	// matches mirror.ErrUnknownRepository where there is none; after any other one, trying again
	// can help.
	Refresh func(ctx context.Context, name string) error
	// DefaultSecret counts for repositories that have none of their own. Empty: those take no
	// webhooks.
	DefaultSecret secret.Text
	// MaxBody bounds the bytes of a delivery. Zero: 512 KiB.
	MaxBody int64
	Logger  *slog.Logger
	Tracer  trace.Tracer
	Meter   metric.Meter
}

// Handler answers webhooks. [Handler.Run] does what they ask for.
type Handler struct {
	params   Params
	received metric.Int64Counter
	bodies   *bodies
	prover   *prover
	sources  *limits
	targets  *limits
	seen     *memory
	queue    *queue
	recorder *recorder
}

// New returns a Handler.
func New(p Params) (*Handler, error) {
	received, err := p.Meter.Int64Counter("leat.webhook.received", metric.WithUnit("{webhook}"),
		metric.WithDescription("Webhooks that arrived, by provider and by what became of them."))
	if err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	for _, name := range provider.Names() {
		for _, result := range []outcome{outcomeAccepted, outcomeRefused} {
			instrument.Begin(received, attributesOf(name, result)...)
		}
	}
	if p.MaxBody <= 0 {
		p.MaxBody = defaultBody
	}
	return &Handler{
		bodies: newBodies(p.MaxBody), params: p, received: received, prover: newProver(p.Repositories, p.DefaultSecret),
		sources: newLimits(sourceRate, sourceBurst), targets: newLimits(targetRate, targetBurst),
		seen: newMemory(), queue: newQueue(), recorder: newRecorder(p),
	}, nil
}

// outcome is the outcome of a delivery; the values are those of a metric.
type outcome string

const (
	outcomeAccepted  outcome = "accepted"  // at least one repository will be fetched
	outcomeUnmatched outcome = "unmatched" // no repository with that secret has such a URL
	outcomeIgnored   outcome = "ignored"   // not about refs
	outcomeReplayed  outcome = "replayed"  // seen before
	outcomePing      outcome = "ping"
	outcomeRefused   outcome = "refused"   // proven by no secret
	outcomeMalformed outcome = "malformed" // proven, but not what the provider sends
	outcomeTooLarge  outcome = "too_large"
	outcomeLimited   outcome = "limited"
	outcomeUnknown   outcome = "unknown_provider"
	outcomeBroken    outcome = "broken_off"
)

func attributesOf(provider string, result outcome) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("leat.webhook.provider", provider), attribute.String("leat.webhook.outcome", string(result)),
	}
}

// ServeHTTP implements http.Handler. Whatever was proven and understood is answered alike, whether
// or not it did anything.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, span := h.params.Tracer.Start(r.Context(), "webhook.receive", trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	p, known := provider.Of(r.PathValue("provider"))
	label := r.PathValue("provider")
	if !known {
		label = "unknown" // anything may be there
	}
	result, err := outcomeUnknown, error(rpcerr.NotFound("webhook provider", r.PathValue("provider")))
	if known {
		// The connection cannot set deadlines in tests with a recorder; the limit of the body still
		// holds.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
		n := note{named: r.PathValue("repository"), record: hooklog.Record{Time: time.Now(), Provider: label}}
		result, err = h.receive(ctx, r.WithContext(ctx), p, &n)
		if n.record.Outcome == "" {
			n.record.Outcome = recorded(result)
		}
		h.recorder.add(n)
	}
	attributes := attributesOf(label, result)
	span.SetAttributes(attributes...)
	h.received.Add(ctx, 1, metric.WithAttributes(attributes...))
	if err != nil {
		span.SetStatus(codes.Error, string(result))
		rpcerr.WriteHTTP(w, r, err)
		return
	}
	acknowledge(w, result)
}

func acknowledge(w http.ResponseWriter, result outcome) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	status := http.StatusAccepted
	if result == outcomePing {
		status = http.StatusOK
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "{}\n") // a sender that hung up needs no answer
}

// receive judges one delivery, and queues its fetches. The error is the answer to the sender. It notes
// what the outcome alone does not say.
func (h *Handler) receive(ctx context.Context, r *http.Request, p provider.Provider, seen *note) (outcome, error) {
	if wait := h.sources.take(sourceOf(r)); wait > 0 {
		return outcomeLimited, limited(wait)
	}
	claim, ok := p.Claim(r, time.Now())
	if !ok {
		if p.IsBarePing(r.Header) {
			return outcomePing, nil
		}
		seen.record.Outcome = hooklog.NoProof
		return outcomeRefused, refused()
	}
	if r.ContentLength > h.params.MaxBody {
		return outcomeTooLarge, h.tooLarge()
	}
	release, ok := h.bodies.enter(ctx, sourceOf(r), r.ContentLength)
	if !ok {
		return outcomeLimited, limited(time.Second)
	}
	defer release()
	body, err := readBody(r.Body, r.ContentLength, h.params.MaxBody)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return outcomeTooLarge, h.tooLarge()
	}
	if err != nil {
		return outcomeBroken, rpcerr.Field("body", "It broke off.")
	}
	proven, err := h.prover.prove(ctx, claim, r.PathValue("repository"), body)
	if err != nil {
		return outcomeBroken, err
	}
	if !proven.any {
		return outcomeRefused, refused()
	}
	identity.Verified(r.Context())
	notice, err := p.Read(r.Header, body)
	if err != nil {
		return outcomeMalformed, rpcerr.Field("body", "It is not what "+r.PathValue("provider")+" sends.")
	}
	seen.record.Refs = hooklog.Refs(notice.Refs)
	return h.take(ctx, notice, proven.repositories, claim.ID(notice, body), seen)
}

// take decides about a delivery that is proven and understood.
func (h *Handler) take(
	ctx context.Context, n provider.Notice, repositories []mirror.Definition, id provider.DeliveryID, seen *note,
) (outcome, error) {
	switch n.Kind {
	case provider.KindPing:
		return outcomePing, nil
	case provider.KindOther:
		return outcomeIgnored, nil
	case provider.KindRefs:
	}
	if !h.seen.remember(id) {
		return outcomeReplayed, nil
	}
	// By what the delivery names, known or not: the answer must not tell.
	if wait := h.targets.take(n.Target()); wait > 0 {
		h.seen.forget(id)
		return outcomeLimited, limited(wait)
	}
	result := outcomeUnmatched
	for _, def := range repositories {
		if n.Concerns(def.URL) {
			result = outcomeAccepted
			seen.matched = append(seen.matched, def)
			h.queue.add(task{repository: def.Name, delivery: id, cause: trace.SpanContextFromContext(ctx)})
		}
	}
	return result, nil
}

func (h *Handler) tooLarge() error {
	return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_MESSAGE_TOO_LARGE,
		fmt.Sprintf("A webhook may have %d bytes; the next poll finds what it tells.", h.params.MaxBody))
}

func limited(wait time.Duration) error {
	return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED,
		"Too many webhooks; what they tell is found by the next poll too.", rpcerr.RetryAfter(wait))
}

func refused() error {
	return rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID,
		"The webhook is not proven by a secret that is known here; compare the secret on both sides.")
}
