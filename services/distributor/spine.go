// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/internal/runtime/auditout"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/api/people"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/keys/rotation"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
	"github.com/leatdev/leat/services/distributor/internal/spine/journal"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
	"github.com/leatdev/leat/services/distributor/internal/standing"
)

// adminUser is who owns the admin token, and adminLabel what that token is called in the database.
const (
	adminUser  = "admin"
	adminLabel = "bootstrap"
)

const (
	// readReportsAfter is in what time ten thousand agents come back, once the services are derived.
	readReportsAfter = 30 * time.Second
	// rememberTokens is how many agents and people may call by turns without a signature being checked again.
	rememberTokens = 20_000
)

// spine is the base of every wing: the store with its keys and its journal, the fleet in memory,
// and the editor of the catalog. Wings read it and do not change it.
type spine struct {
	cfg    Config
	tel    *telemetry.Telemetry
	logger *slog.Logger
	// store keeps the catalog, and records the changes of it.
	store   *sqlstore.Store
	records *journal.Journal
	// issuer signs tokens, with the keys that keeper replaces. own is the key with which this service calls others.
	issuer *identity.Issuer
	keeper *rotation.Keeper
	own    *identity.ServiceKey
	// verifier knows agents, people and the tunnel by their tokens.
	verifier identity.Verifier
	// view is the fleet in memory. plans hears of changed plans, and objects of changed objects.
	view    *fleet.View
	plans   *fanout.Hub[string]
	objects *fanout.Hub[catalog.Key]
	// editor makes the edits of people, and joinTokens the tokens that agents come with.
	editor     *catalog.Editor
	joinTokens *admission.JoinTokens
	// uses notes when API tokens are used, and standing knows the states that the view does not know.
	uses     *admission.Uses
	standing *standing.Reader

	// closers are run in reverse order.
	closers []func() error
}

// open opens the store, loads the keys and reads the catalog. It waits for a database that does not answer yet, and
// closes nothing on an error: close does.
func (s *spine) open(ctx context.Context, starting *startup) error {
	settings, err := readSettings(s.cfg.AgentSettingsFile)
	if err != nil {
		return err
	}
	if s.store, err = openStore(ctx, s.cfg, starting); err != nil {
		return err
	}
	s.closers = append(s.closers, s.store.Close)
	if err := errors.Join(
		serve.ObserveDependencies(s.tel.Meter(scope), map[string]func(context.Context) error{"database": s.store.Ping}),
		serve.ObserveDisk(s.tel.Meter(scope), s.cfg.DataDir),
	); err != nil {
		return err
	}
	if err := s.openJournal(ctx); err != nil {
		return err
	}
	if err := ensureAdmin(ctx, s.cfg, s.store, starting); err != nil {
		return err
	}
	s.issuer = new(identity.Issuer)
	stored := sqlstore.NewRotation(s.store)
	s.keeper = rotation.New(rotation.Params{Seals: stored, Signing: stored, Issuer: s.issuer, Policy: s.cfg.Keys.policy(), Logger: s.logger})
	if err := errors.Join(starting.untilAvailable(ctx, s.keeper.Load), s.keeper.Observe(s.tel.Meter(scope))); err != nil {
		return err
	}
	if err := s.openVerifier(); err != nil {
		return err
	}
	s.plans, s.objects = fanout.NewHub[string](0), fanout.NewHub[catalog.Key](0)
	changed, line, err := measureChanges(s.tel)
	if err != nil {
		return err
	}
	s.view = fleet.New(fleet.Params{
		Store: s.store, Logger: s.logger, Tracer: s.tel.Tracer(scope), Plans: s.plans, Objects: s.objects,
		Settings: settings, PollInterval: s.cfg.Intervals.CatalogPoll, ReadReportsAfter: readReportsAfter,
		Changed: changed, Waiting: line, HubVersion: app.Version(),
	})
	if err := starting.untilAvailable(ctx, s.view.Load); err != nil {
		return fmt.Errorf("load catalog: %w", err)
	}
	s.editor = s.cfg.editor(s.store).WithDerivations(fleet.Derivations{View: s.view})
	s.joinTokens, s.uses = admission.NewJoinTokens(s.store.Enrolments()), admission.NewUses(s.store.Tokens(), s.logger)
	s.standing = standing.New(standing.Params{
		Rollouts: sqlstore.RolloutsOf(s.store), FleetSources: sqlstore.FleetSourcesOf(s.store), Images: sqlstore.ImagePoliciesOf(s.store),
		Backends: sqlstore.NewEntries(s.store), Mail: sqlstore.NotificationsOf(s.store), TooLarge: fleet.NewSizes(s.view).TooLarge,
	})
	return nil
}

// openJournal makes the store record the changes of the catalog.
func (s *spine) openJournal(ctx context.Context) error {
	outputs, err := auditout.Open(ctx, s.cfg.Audit.Config, auditout.Params{Service: program, Logger: s.logger, Meter: s.tel.Meter(scope)})
	if err != nil {
		return err
	}
	s.closing(outputs.Close)
	s.records = journal.New(journal.Params{
		Store: sqlstore.RecordsOf(s.store), Outputs: outputs, Describe: people.Describe, Retention: s.cfg.Audit.Retention, Logger: s.logger,
	})
	s.closing(s.records.Close)
	s.store = s.store.WithJournal(s.records)
	return nil
}

// openVerifier makes the verifier of all tokens that callers come with.
func (s *spine) openVerifier() error {
	own, services, err := s.cfg.Service.Open(program)
	if err != nil {
		return err
	}
	remembered, err := identity.Remember(s.issuer.Verifier(identity.ServiceDistributor), rememberTokens)
	if err != nil {
		return err
	}
	tunnel := services.Verifier([]string{identity.ServiceTunnel}, identity.ServiceDistributor)
	s.own, s.verifier = own, identity.Chain(remembered, tunnel, admission.NewAPITokens(s.store.Tokens()))
	return nil
}

// closing runs a function when the service has ended.
func (s *spine) closing(done func()) {
	s.closers = append(s.closers, func() error {
		done()
		return nil
	})
}

// close closes what was opened, the last one first.
func (s *spine) close() error {
	var errs []error
	for _, done := range slices.Backward(s.closers) {
		errs = append(errs, done())
	}
	return errors.Join(errs...)
}

func (c *Config) editor(store catalog.Editable) *catalog.Editor {
	editor := catalog.NewEditor(store).WithPublic(people.SamePublic)
	if c.AllowLocalAgents {
		return editor.WithLocalEndpoints()
	}
	return editor
}

// openStore opens the database and migrates it.
func openStore(ctx context.Context, cfg Config, starting *startup) (*sqlstore.Store, error) {
	keys, err := cfg.Keys.open(&cfg.Service)
	if err != nil {
		return nil, err
	}
	var store *sqlstore.Store
	err = starting.untilAvailable(ctx, func(ctx context.Context) (err error) {
		store, err = sqlstore.OpenWith(ctx, cfg.databaseURL(), keys)
		return err
	})
	return store, err
}

// ensureAdmin makes sure of the admin's token.
func ensureAdmin(ctx context.Context, cfg Config, store *sqlstore.Store, starting *startup) error {
	if cfg.AdminToken.Reveal() == "" {
		return nil
	}
	admin := catalog.User{Metadata: catalog.Metadata{Name: adminUser}, Spec: catalog.UserSpec{Groups: []string{catalog.AdminGroup}}}
	return starting.untilAvailable(ctx, func(ctx context.Context) error {
		return store.Tokens().EnsureToken(ctx, admin, adminLabel, admission.Hash(cfg.AdminToken.Reveal()), time.Time{})
	})
}

// run serves until ctx is done or work of a wing fails. Work continues during the drain, for the calls that are
// finishing: it ends after the server, and presence is stored between the two.
func (s *spine) run(ctx context.Context, wings []wing, server serve.Params) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, work := errgroup.WithContext(work)
	// Work that fails ends the server, too.
	serving, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(work, cancel)()
	defer cancel()
	for _, w := range wings {
		for _, part := range w.work {
			group.Go(func() error { return part(work) })
		}
	}
	served := serve.Run(serving, server)
	if err := s.view.Presence.StorePresence(work); err != nil {
		s.logger.WarnContext(ctx, "presence of agents not stored", slog.Any("error", err))
	}
	stop()
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		served = errors.Join(served, err)
	}
	return served
}

// settled returns work that begins when derived services are known. It would take others for deleted.
func (s *spine) settled(work func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := fleet.AwaitSettled(ctx, s.view); err != nil {
			return err
		}
		return work(ctx)
	}
}
