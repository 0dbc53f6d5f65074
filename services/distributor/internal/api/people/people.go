// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package people answers the calls of people: FleetService. It reads from the view, and writes
// through the catalog's editor, which the view then follows.
//
// Every call begins with the caller and their rights. The option beside the RPC names the permission
// that the call needs; package authz decides whether the caller has it for the object, once the object
// is found. What the caller may not see does not exist for them. Secrets go in and never come out.
// What an edit may contain is decided by package catalog.
package people

import (
	"context"
	"log/slog"
	"time"

	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/services/distributor/internal/admission"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fanout"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/fleetsync"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/resolve"
	"github.com/leatdev/leat/services/distributor/internal/rollouts"
)

// refreshTimeout bounds the wait for upstreams in SyncService.
const refreshTimeout = time.Minute

// statesTimeout bounds the wait for the states of mirrors. Past it, readers are shown what was last
// reported.
const statesTimeout = 2 * time.Second

// Resolver has sources resolved now; resolve.Loop implements it.
type Resolver interface {
	// Sync has the sources resolved and waits for the answers, good or bad. The error is the
	// context's.
	Sync(ctx context.Context, sources []catalog.Source) error
}

// Mirrors is where repositories are mirrored; gitsource.Source implements it.
type Mirrors interface {
	// Refresh has a repository fetched now, and waits for it.
	Refresh(ctx context.Context, repository string) error
	// States returns the states of repositories as the owners of their mirrors see them now,
	// without those that nobody owns. It keeps nothing.
	States(ctx context.Context, repositories []string) (map[string]catalog.Mirror, error)
	// Push has changed definitions handed over soon.
	Push()
	// Resolve returns what a source holds, whether a service names it or not. Its error is a
	// *resolve.Failure, or the context's.
	Resolve(ctx context.Context, source catalog.Source) (resolve.Answer, error)
}

// Deps are the collaborators of the service, all required, and its settings.
type Deps struct {
	View       *fleet.View
	Editor     *catalog.Editor
	Enrolments catalog.Enrolments
	People     catalog.People
	Uses       *admission.Uses
	History    catalog.History
	Grants     catalog.Grants
	Bundles    Bundles
	Resolver   Resolver
	Mirrors    Mirrors
	Issuer     *identity.Issuer
	JoinTokens *admission.JoinTokens
	Audit      Audit
	Configs    Configs
	Objects    *fanout.Hub[catalog.Key]
	States     States
	Logger     *slog.Logger
	Settings   Settings
}

// Settings are those of the service.
type Settings struct {
	// Version is the hub's.
	Version string
	// TunnelURL is the public base URL of the tunnel. Empty: there is none.
	TunnelURL string
	// RedirectURI is what identity providers send people back to. Empty: the hub has no public URL.
	RedirectURI string
	// RolloutWait bounds how long the answer to an edit waits for the rollout that brings it, which another replica may
	// begin. None begins while another one is under way, or while something of the edit is missing.
	RolloutWait time.Duration
}

// States knows the states of objects that the view does not know, all required.
type States struct {
	Rollouts     rollouts.People
	Releases     Releases
	FleetSources fleetsync.States
	Mail         notify.Mail
}

// Service implements leat.fleet.v1.FleetService.
type Service struct {
	d       Deps
	stating map[catalog.Kind]stating
}

// New returns the service for people.
func New(d Deps) *Service {
	s := &Service{d: d}
	s.stating = statingOf(s)
	return s
}
