// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package people answers the calls of people: FleetService. It reads from the view, and writes
// through the catalog's editor, which the view then follows.
//
// Every call begins with the caller and their rights. The option beside the RPC names the permission
// that the call needs; package authz decides whether the caller has it for the object, once the
// object is found. Objects that the caller may not see do not exist for them. Secrets go in and
// never come out. Package catalog decides about the content of an edit.
package people

import (
	"context"
	"log/slog"
	"strings"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/fleetgit/fleetsync"
	"github.com/leatdev/leat/services/distributor/internal/fleetgit/imagesync"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
	"github.com/leatdev/leat/services/distributor/internal/spine/journal"
)

// refreshTimeout bounds the wait for upstreams in SyncService and SyncRepository.
const refreshTimeout = time.Minute

// fetchEvery and fetchBurst bound the fetches of single repositories that each person requests, at a replica.
const (
	fetchEvery = 2 * time.Second
	fetchBurst = 10
)

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
	// Deliveries returns the newest webhooks about a repository. Its error is a *resolve.Failure, or the context's.
	Deliveries(ctx context.Context, repository string) ([]*gitcachev1.WebhookDelivery, error)
	// Commits returns the newest commits at a commit of a source, back to another one or to the beginning, and whether
	// there are more. Its error is a *resolve.Failure, or the context's.
	Commits(ctx context.Context, source catalog.Source, until string, limit int) (commits []*gitcachev1.Commit, more bool, err error)
	// States returns the states of repositories as the owners of their mirrors see them now, without
	// the ones that have no owner. It keeps nothing.
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

// Settings are the settings of the service.
type Settings struct {
	// Version is the hub's.
	Version string
	// TunnelURL is the public base URL of the tunnel. Empty: there is none.
	TunnelURL string
	// RedirectURI is the URL to which identity providers send people back. Empty: the hub has no
	// public URL.
	RedirectURI string
	// UIURL is where the web UI is; a path where the hub has no public URL. Empty: the program has no web UI.
	UIURL string
	// WebhookURL is the address below which webhooks of Git hosts reach the hub. Empty: the hub does not know it.
	WebhookURL string
	// TraceURL is where people look at a trace, with TracePlace in place of its ID. Empty: the hub does not know it.
	TraceURL string
	// RolloutWait bounds how long the answer to an edit waits for the rollout that brings it, which another replica may
	// begin. None begins while another one is under way, or while something of the edit is missing.
	RolloutWait time.Duration
}

// TracePlace stands for the ID of a trace in Settings.TraceURL.
const TracePlace = "{traceID}"

// traceURL returns where a trace can be looked at, or "" if there is none or the hub does not know.
func (s Settings) traceURL(id string) string {
	if id == "" {
		return ""
	}
	return strings.ReplaceAll(s.TraceURL, TracePlace, id)
}

// States knows the states of objects that the view does not know, all required.
type States struct {
	Rollouts     drive.People
	Releases     Releases
	FleetSources fleetsync.States
	Images       imagesync.States
	Mail         notify.Mail
}

// Service implements leat.fleet.v1.FleetService.
type Service struct {
	d       Deps
	stating map[catalog.Kind]stating
	fetches *admission.Pace
}

// Audit reads the records of changes; journal.Journal implements it.
type Audit interface {
	// Find returns the records that a query selects.
	Find(ctx context.Context, q journal.Query) (journal.Page, error)
	// Reach returns the time from which on every record is kept; zero: there are no records.
	Reach(ctx context.Context) (time.Time, error)
}

// Configs is the state of configurations beside the catalog; sqlstore.Entries implements it.
type Configs interface {
	// Explain returns where the values of a service's configuration come from, by key.
	Explain(ctx context.Context, serviceUID string) ([]configs.Explained, error)
	// Shown returns what anybody may see of a service's configuration, of all layers together.
	Shown(ctx context.Context, serviceUID string) (*catalog.Config, error)
	// ExplainDerived and ShownDerived are these for a derived service, given its cluster as the service's project knows it.
	ExplainDerived(ctx context.Context, service *catalog.Service, cluster *catalog.Cluster) ([]configs.Explained, error)
	// HeldKeys returns the keys in which the configuration that a rollout holds a service at differs from the
	// service's own. cluster is as for ExplainDerived, and nil for a service that is not derived.
	HeldKeys(ctx context.Context, service *catalog.Service, cluster *catalog.Cluster) ([]string, error)
	ShownDerived(ctx context.Context, service *catalog.Service, cluster *catalog.Cluster) (*catalog.Config, error)
	// Status returns the state of the reads of back ends, by uid.
	Status(ctx context.Context) (map[string]configs.Status, error)
	// Hasten makes a path of a back end due, or all if path is empty, and returns how many.
	Hasten(ctx context.Context, backendUID, path string, now time.Time) (int, error)
}

// Bundles has the bundles of plans; bundles.Cache implements it.
type Bundles interface {
	// Open returns the whole bundle, which the caller closes. It waits for one that is missing.
	Open(ctx context.Context, bundle plan.Bundle) (*cas.Blob, error)
}

// Releases knows what rollouts bring; sqlstore.Rollouts implements it.
type Releases interface {
	// Brings returns the latest rollout of a policy, and the releases that it brings to some services, by their
	// uids. Errors: drive.ErrNotFound.
	Brings(ctx context.Context, policyUID string, serviceUIDs []string) (*drive.Outline, map[string]catalog.Release, error)
}

// stating returns the documents of records of one kind, with states that others than the view know,
// as the caller may see them.
type stating func(context.Context, *caller, []fleet.Record) ([]*fleetv1.Document, error)

// documents returns the documents of records of one kind, with their states as the caller may see
// them.
func (s *Service) documents(ctx context.Context, c *caller, records []fleet.Record) ([]*fleetv1.Document, error) {
	if len(records) == 0 {
		return nil, nil
	}
	if shown := s.stating[records[0].Object.Key().Kind]; shown != nil {
		return shown(ctx, c, records)
	}
	documents := make([]*fleetv1.Document, len(records))
	for i := range records {
		documents[i] = fleetdoc.Of(codec.Show(&records[i]))
	}
	return documents, nil
}
