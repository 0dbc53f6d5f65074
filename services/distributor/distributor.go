// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package distributor is the service that knows what every cluster should run: it keeps the
// catalog, computes plans, hands them and their bundles to agents, and takes their reports.
//
// See README.md for what it needs, and for what happens when that is missing.
package distributor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/private"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/ui"
)

// agentFrame bounds what each agent's connection holds after a report of everything, of which there are ten
// thousand after a start of a large fleet.
const agentFrame = 16 << 10

// Run runs one replica until ctx is done, then lets running calls finish.
func Run(ctx context.Context, cfg Config) (err error) {
	config.Complete(cfg.bind)
	if err := cfg.check(); err != nil {
		return err
	}
	tel, err := telemetry.Start(ctx, cfg.Telemetry, program)
	if err != nil {
		return err
	}
	defer tel.Shutdown(ctx)
	logger := tel.Logger()
	if err := private.Dir(cfg.DataDir); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	listener, err := cfg.Serve.Listen()
	if err != nil {
		return err
	}
	cfg.Serve.Listener, cfg.Serve.ReadFrame = listener, agentFrame
	defer func() { _ = listener.Close() }() // closed already where serve.Run came to it
	starting := newStartup(logger)
	internal, err := serve.StartInternal(ctx, serve.Params{Config: cfg.Serve, Internal: newInternal(starting, tel), Logger: logger})
	if err != nil {
		return err
	}
	defer internal.Close()

	s := &spine{cfg: cfg, tel: tel, logger: logger}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(ctx, starting); err != nil {
		return err
	}
	wings, err := s.wings()
	if err != nil {
		return err
	}
	handler, err := s.handler(wings)
	if err != nil {
		return err
	}
	starting.finish()
	logger.InfoContext(ctx, "replica started", slog.String("addr", listener.Addr().String()), slog.String("version", app.Version()))
	return s.run(ctx, wings, serve.Params{Config: cfg.Serve, Public: handler, Started: internal, Logger: logger, Meter: tel.Meter(scope)})
}

// newInternal returns the handler for probes and scrapes. The service is ready once it has read the
// catalog, and stays ready: it can answer from memory and disk without the database and gitcache.
func newInternal(starting *startup, tel *telemetry.Telemetry) http.Handler {
	health := serve.NewHealth()
	health.Register("database", starting.check)
	return serve.NewInternal(serve.InternalParams{
		Health: health, Telemetry: tel,
		Services: []string{
			fleetv1connect.FleetServiceName, fleetv1connect.SessionServiceName, fleetv1connect.KeyServiceName, fleetv1connect.NotifierServiceName,
			fleetv1connect.QueryServiceName,
			fleetv1connect.GlobalServiceServiceName, fleetv1connect.RolloutServiceName,
			fleetv1connect.FleetSourceServiceName, fleetv1connect.ImagePolicyServiceName, fleetv1connect.BootstrapServiceName, fleetv1connect.AccessRequestServiceName,
			distributorv1connect.DistributorServiceName, distributorv1connect.AccessServiceName, distributorv1connect.ReceptionServiceName,
		},
	})
}

// wings opens every wing. Wings that others need come first.
func (s *spine) wings() ([]wing, error) {
	content, err := s.openDelivery()
	if err != nil {
		return nil, err
	}
	build, err := ui.Embedded()
	if err != nil {
		return nil, err
	}
	web, err := ui.New(build, s.tel.Meter(scope))
	if err != nil {
		return nil, err
	}
	persons := s.openPeople(content, web)
	wings := []wing{s.fleetWing(), s.keysWing(persons), s.objectsWing(persons), content.wing(s), uiWing(web)}
	for _, open := range []func() (wing, error){
		func() (wing, error) { return s.openAgents(persons, content) },
		s.openSignIn,
		s.openConfiguration,
		func() (wing, error) { return s.openRollouts(persons, content.source) },
		func() (wing, error) { return s.openNotifications(persons, web) },
		func() (wing, error) { return s.openFleetSources(persons, content) },
		func() (wing, error) { return s.openImagePolicies(persons, content) },
	} {
		opened, err := open()
		if err != nil {
			return nil, err
		}
		wings = append(wings, opened)
	}
	return wings, nil
}
