// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"net/http"
	"strings"

	"github.com/leatdev/leat/internal/dialguard"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/journal"
	"github.com/leatdev/leat/services/distributor/internal/loginpages"
	"github.com/leatdev/leat/services/distributor/internal/oidclogin"
	"github.com/leatdev/leat/services/distributor/internal/session"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
	"github.com/leatdev/leat/services/distributor/internal/tokenexchange"
	"github.com/leatdev/leat/services/distributor/internal/trust"
)

// signIn is how people sign in with identity providers.
type signIn struct {
	desk  *session.Desk
	pages *loginpages.Pages
}

func (c *Config) openSignIn(store *sqlstore.Store, view *fleet.View, records *journal.Journal, tel *telemetry.Telemetry) (signIn, error) {
	secret := []byte(c.Service.Secret.Reveal())
	provider := oidclogin.New(oidclogin.Params{
		Secrets: store.SignIns(), RedirectURI: c.redirectURI(), Guard: dialguard.Guard{AllowLocal: c.AllowLocalAgents},
	})
	codes, err := session.NewCodes(secret)
	if err != nil {
		return signIn{}, err
	}
	metrics, err := session.NewMetrics(tel.Meter(scope), func() map[catalog.SessionClient]int { return fleet.LiveSessions(view) })
	if err != nil {
		return signIn{}, err
	}
	logger := tel.Logger()
	desk := session.NewDesk(session.Params{
		Store: store.SignIns(), View: view, Provider: provider, Codes: codes, Metrics: metrics, Logger: logger,
	})
	pages, err := loginpages.New(loginpages.Params{
		View: view, Provider: provider, Desk: desk, Journal: records, Metrics: metrics, Secret: secret, Logger: logger,
	})
	return signIn{desk: desk, pages: pages}, err
}

// openExchange returns the endpoint at which workloads obtain access tokens.
func (c *Config) openExchange(view *fleet.View, issuer *identity.Issuer, records *journal.Journal, tel *telemetry.Telemetry) (http.Handler, error) {
	verifier := oidclogin.NewIssuers(oidclogin.IssuersParams{Guard: dialguard.Guard{AllowLocal: c.AllowLocalAgents}})
	return tokenexchange.New(tokenexchange.Params{
		Desk:   trust.NewDesk(trust.Params{View: fleet.TrustRules{View: view}, Verifier: verifier, Logger: tel.Logger()}),
		Issuer: issuer, Journal: records, Logger: tel.Logger(), Meter: tel.Meter(scope),
	})
}

// publicURL returns the base URL of this service for browsers, without a slash at its end.
func (c *Config) publicURL() string { return strings.TrimRight(c.PublicURL, "/") }

// redirectURI returns what identity providers send people back to; empty without a public URL.
func (c *Config) redirectURI() string {
	if c.PublicURL == "" {
		return ""
	}
	return c.publicURL() + loginpages.CallbackPath
}
