// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package loginpages

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/services/distributor/internal/access/session"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Journal records what sessions do not record themselves; journal.Journal implements it.
type Journal interface {
	// RefuseSignIn records that a sign-in failed. provider is one of the catalog's, or empty.
	RefuseSignIn(ctx context.Context, origin catalog.Origin, provider string, why reason.Reason)
}

// attempt is an attempt to sign in whose end is counted and recorded.
type attempt struct {
	pages  *Pages
	origin catalog.Origin
	// provider is nil until the browser has proved with which one the sign-in began.
	provider *catalog.IdentityProvider
}

// attemptOf returns an attempt that ends with this request.
func (s *Pages) attemptOf(r *http.Request, provider *catalog.IdentityProvider) *attempt {
	id := audit.NewID()
	return &attempt{pages: s, provider: provider, origin: catalog.Origin{
		SourceAddress: r.RemoteAddr, UserAgent: r.UserAgent(), Method: r.Method, Procedure: r.URL.Path, RequestID: id, TraceID: id,
	}}
}

// confirmed notes the person whom the provider has confirmed.
func (a *attempt) confirmed(claims session.Claims) {
	a.origin.Subject = session.SubjectOf(session.SubjectName(a.provider, claims.Subject))
}

// end counts the attempt, and records it unless it began a session, which has a record of its own.
// err is for the log; nil: there is nothing that the person could not correct.
func (a *attempt) end(ctx context.Context, outcome session.Outcome, err error) {
	name := ""
	if a.provider != nil {
		name = a.provider.Name
	}
	a.pages.p.Metrics.Attempted(ctx, name, outcome)
	if err != nil {
		a.pages.p.Logger.WarnContext(ctx, "sign-in refused", slog.String("provider", name), slog.String("outcome", string(outcome)),
			slog.String("request", a.origin.RequestID), slog.Any("error", err))
	}
	if why, isRefused := outcome.Reason(); isRefused {
		a.pages.p.Journal.RefuseSignIn(ctx, a.origin, name, why)
	}
}
