// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/access/loginpages"
	"github.com/leatdev/leat/services/distributor/internal/access/oidclogin"
	"github.com/leatdev/leat/services/distributor/internal/access/session"
	"github.com/leatdev/leat/services/distributor/internal/access/tokenexchange"
	"github.com/leatdev/leat/services/distributor/internal/access/trust"
	"github.com/leatdev/leat/services/distributor/internal/api/sessions"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// signInView joins the parts of the view by which people sign in.
type signInView struct {
	*fleet.View
	fleet.Accounts
}

// openSignIn signs people in with identity providers, keeps their sessions, and gives workloads access tokens.
func (s *spine) openSignIn() (wing, error) {
	secret := []byte(s.cfg.Service.Secret.Reveal())
	guard := dialguard.Guard{AllowLocal: s.cfg.AllowLocalAgents}
	provider := oidclogin.New(oidclogin.Params{Secrets: s.store.SignIns(), RedirectURI: s.cfg.redirectURI(), Guard: guard})
	codes, err := session.NewCodes(secret)
	if err != nil {
		return wing{}, err
	}
	metrics, err := session.NewMetrics(s.tel.Meter(scope), s.view.Accounts().LiveSessions)
	if err != nil {
		return wing{}, err
	}
	view := signInView{s.view, s.view.Accounts()}
	desk := session.NewDesk(session.Params{
		Store: s.store.SignIns(), View: view, Provider: provider, Codes: codes, Metrics: metrics, Logger: s.logger,
	})
	pages, err := loginpages.New(loginpages.Params{
		View: view, Provider: provider, Desk: desk, Journal: s.records, Metrics: metrics, Secret: secret, Logger: s.logger,
	})
	if err != nil {
		return wing{}, err
	}
	exchange, err := tokenexchange.New(tokenexchange.Params{
		Desk: trust.NewDesk(trust.Params{
			View: fleet.TrustRules{View: s.view}, Verifier: oidclogin.NewIssuers(oidclogin.IssuersParams{Guard: guard}), Logger: s.logger,
		}),
		Issuer: s.issuer, Journal: s.records, Logger: s.logger, Meter: s.tel.Meter(scope),
	})
	if err != nil {
		return wing{}, err
	}
	service := sessions.New(sessions.Deps{
		View: s.view, Desk: desk, Issuer: s.issuer, Codes: codes, People: s.store.Tokens(),
		Tokens: admission.NewAPITokens(s.store.Tokens()), Logger: s.logger, PublicURL: s.cfg.publicURL(),
	})
	return wing{mount: func(c *calls) {
		path, handler := fleetv1connect.NewSessionServiceHandler(service, c.server.Options(c.recorder)...)
		c.mux.Handle(path, sessions.Protect(c.server.Guard(handler)))
		c.mux.Handle(tokenexchange.Pattern, exchange)
		c.pages = append(c.pages, pages.Before)
	}}, nil
}
