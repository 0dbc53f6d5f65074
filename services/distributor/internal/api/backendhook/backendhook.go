// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package backendhook receives webhooks that have configuration back ends read now instead of at
// their next refresh: POST /webhooks/config/{backend}. Tools that rotate secrets send them.
//
// Its promises:
//
//   - A webhook only ever makes the hub read earlier. Its content is not trusted.
//   - A delivery is proven by the secret of its back end, in the forms in which gitcache takes generic
//     webhooks: an HMAC over time and body, or the secret itself as a bearer token. A sender without
//     the proof does not learn whether there is such a back end.
//   - Senders are bounded before they are known: the deliveries of one address, all deliveries, and the
//     bytes of a body. So are the deliveries about one back end.
//   - A signed delivery counts once at a replica, within the five minutes for which it is valid. At
//     another replica it makes one more read, which the limits of reads bound.
package backendhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	lru "github.com/hashicorp/golang-lru/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/time/rate"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
)

// Pattern is the route of a Handler.
const Pattern = "POST /webhooks/config/{backend}"

const (
	// maxBody bounds a delivery, and readTimeout how long its sender may take for it.
	maxBody     = 4 << 10
	readTimeout = 10 * time.Second
	// maxSkew is how far the time of a signed delivery may be from this replica's.
	maxSkew = 5 * time.Minute
	// sourceEvery and sourceBurst bound what one address sends, allRate and allBurst what all send, and
	// targetEvery and targetBurst the proven deliveries about one back end.
	sourceEvery, sourceBurst = 50 * time.Millisecond, 100
	allRate, allBurst        = 50, 200
	targetEvery, targetBurst = time.Second, 60
	// maxRemembered bounds the signed deliveries that are remembered; it exceeds the number that
	// allRate and targetEvery let in within the time for which they are valid.
	maxRemembered = 50_000
)

// Backends are the back ends; sqlstore.Entries implements it. Errors match catalog.ErrUnavailable if
// the store does not answer.
type Backends interface {
	// Hook returns a back end's uid and what proves its webhooks. An unknown name has neither, and a
	// back end that takes no webhooks has no proof. It takes the same time for all of them.
	Hook(ctx context.Context, name string) (uid string, proof secret.Text, err error)
	// Hasten makes a path of a back end due, or all if path is empty, and returns how many.
	Hasten(ctx context.Context, backendUID, path string, now time.Time) (int, error)
}

// Params are a Handler's collaborators, all required.
type Params struct {
	Backends Backends
	Logger   *slog.Logger
	Meter    metric.Meter
}

// Handler answers webhooks. It is safe for concurrent use.
type Handler struct {
	p        Params
	received metric.Int64Counter
	sources  *admission.Pace
	targets  *admission.Pace
	all      *rate.Limiter
	seen     *lru.Cache[[sha256.Size]byte, time.Time] // when each came
}

// New returns a Handler.
func New(p Params) (*Handler, error) {
	received, err := p.Meter.Int64Counter("leat.distributor.config.webhooks", metric.WithUnit("{webhook}"),
		metric.WithDescription("Webhooks for configuration back ends by outcome: accepted, replayed, refused, malformed, too_large, limited or unavailable."))
	seen, errSeen := lru.New[[sha256.Size]byte, time.Time](maxRemembered)
	return &Handler{
		p: p, received: received, seen: seen, all: rate.NewLimiter(allRate, allBurst),
		sources: admission.NewPace(sourceEvery, sourceBurst), targets: admission.NewPace(targetEvery, targetBurst),
	}, errors.Join(err, errSeen)
}

// outcome is the outcome of a delivery; the values are those of a metric.
type outcome string

const (
	accepted    outcome = "accepted"
	replayed    outcome = "replayed"
	refused     outcome = "refused"
	malformed   outcome = "malformed"
	tooLarge    outcome = "too_large"
	limited     outcome = "limited"
	unavailable outcome = "unavailable"
)

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A recorder of tests has no deadline. The limit of the body still holds.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
	entries, result, err := h.receive(r)
	h.received.Add(r.Context(), 1, metric.WithAttributes(attribute.String("outcome", string(result))))
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if err != nil {
		rpcerr.WriteHTTP(w, r, err)
		return
	}
	header.Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, `{"entries":`+strconv.Itoa(entries)+"}\n") // a sender that hung up is told nothing
}

// receive judges a delivery, and carries it out. The error is the answer to the sender.
func (h *Handler) receive(r *http.Request) (entries int, result outcome, err error) {
	ctx := r.Context()
	if wait, ok := h.sources.Enter(sourceOf(r)); !ok {
		return 0, limited, tooMany(wait)
	}
	if !h.all.Allow() {
		return 0, limited, tooMany(time.Second)
	}
	c, ok := claimOf(r, time.Now())
	if !ok {
		return 0, refused, notProven()
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case len(body) > maxBody:
		return 0, tooLarge, rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_MESSAGE_TOO_LARGE,
			"A webhook for a configuration back end may have "+strconv.Itoa(maxBody)+" bytes.")
	case err != nil:
		return 0, malformed, rpcerr.Field("body", "It broke off.")
	}
	name := r.PathValue("backend")
	uid, proof, err := h.p.Backends.Hook(ctx, name)
	if err != nil {
		return 0, unavailable, wire.Error(err)
	}
	isKnown := uid != "" && proof != ""
	if !isKnown {
		proof = nobodys
	}
	if !c.holds(proof, body) || !isKnown {
		return 0, refused, notProven()
	}
	identity.Verified(ctx)
	if wait, ok := h.targets.Enter(uid); !ok {
		return 0, limited, tooMany(wait)
	}
	path, err := pathIn(body)
	if err != nil {
		return 0, malformed, err
	}
	if !h.remember(c, time.Now()) {
		return 0, replayed, nil
	}
	entries, err = h.p.Backends.Hasten(ctx, uid, path, time.Now())
	if err != nil {
		h.forget(c)
		return 0, unavailable, wire.Error(err)
	}
	h.p.Logger.InfoContext(ctx, "webhook has a configuration back end read", slog.String("backend", name), slog.Int("entries", entries))
	return entries, accepted, nil
}

// pathIn returns the path in a body; empty: all.
func pathIn(body []byte) (string, error) {
	if len(body) == 0 {
		return "", nil
	}
	var wanted struct {
		Path string `json:"path"`
	}
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&wanted); err != nil || decoder.More() {
		return "", rpcerr.Field("body", `It is neither empty nor {"path": "…"}.`)
	}
	return wanted.Path, nil
}

// remember reports whether a delivery is new. One that holds the secret itself is: its sender needs
// no replay.
func (h *Handler) remember(c claim, now time.Time) bool {
	if c.mac == nil {
		return true
	}
	at, ok, _ := h.seen.PeekOrAdd([sha256.Size]byte(c.mac), now)
	if !ok {
		return true
	}
	if now.Sub(at) < 2*maxSkew {
		return false
	}
	h.seen.Add([sha256.Size]byte(c.mac), now)
	return true
}

// forget makes a delivery count as new again, because nothing came of it.
func (h *Handler) forget(c claim) {
	if c.mac != nil {
		h.seen.Remove([sha256.Size]byte(c.mac))
	}
}

// nobodys stands for the secret of a back end that has none. The result of the comparison is
// ignored.
const nobodys secret.Text = "stands for the secret of a back end that is not there"

// claim is the proof in a delivery's headers that its sender knows a secret.
type claim struct {
	// mac is an HMAC-SHA-256 with the secret as its key, over prefix and body. Nil: token counts.
	mac    []byte
	prefix string
	// token is the secret itself.
	token string
}

// claimOf reads a claim: X-Leat-Timestamp with X-Leat-Signature-256, or a bearer token.
func claimOf(r *http.Request, now time.Time) (claim, bool) {
	if stamp := r.Header.Get("X-Leat-Timestamp"); stamp != "" {
		seconds, err := strconv.ParseInt(stamp, 10, 64)
		digits, ok := strings.CutPrefix(r.Header.Get("X-Leat-Signature-256"), "sha256=")
		mac, errMAC := hex.DecodeString(digits)
		isFresh := err == nil && now.Sub(time.Unix(seconds, 0)).Abs() <= maxSkew
		return claim{mac: mac, prefix: stamp + "."}, ok && isFresh && errMAC == nil && len(mac) == sha256.Size
	}
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return claim{token: strings.TrimSpace(token)}, ok && strings.EqualFold(scheme, "Bearer")
}

// holds reports whether the claim proves that its sender knows the secret. It takes a time that does
// not depend on the answer.
func (c claim) holds(proof secret.Text, body []byte) bool {
	if c.mac != nil {
		sum := hmac.New(sha256.New, []byte(proof.Reveal()))
		_, _ = io.WriteString(sum, c.prefix) // a hash does not fail
		_, _ = sum.Write(body)
		return hmac.Equal(sum.Sum(nil), c.mac)
	}
	// Hashed, because a comparison of texts gives their length away.
	have, want := sha256.Sum256([]byte(c.token)), sha256.Sum256([]byte(proof.Reveal()))
	return subtle.ConstantTimeCompare(have[:], want[:]) == 1
}

// sourceOf names where a request comes from. One holder of an IPv6 network has all addresses of its
// last 64 bits.
func sourceOf(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	address := from.Addr().Unmap()
	if address.Is6() {
		return netip.PrefixFrom(address.WithZone(""), 64).Masked().String()
	}
	return address.String()
}

func tooMany(wait time.Duration) error {
	return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED,
		"Too many webhooks; the next refresh reads the back end, too.", rpcerr.RetryAfter(wait))
}

func notProven() error {
	return rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID,
		"The webhook is not proven by the webhook secret of such a back end; compare name, secret and clock on both sides.")
}
