// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"log/slog"
	"sync"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/auditout"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/tunnel/internal/kubeapi"
	"github.com/leatdev/leat/services/tunnel/internal/kubeproxy"
	"github.com/leatdev/leat/services/tunnel/internal/recording"
)

// openAudit begins to write audit records. stop returns when the last ones are written, or when
// they take too long. It is never nil.
func openAudit(ctx context.Context, cfg auditout.Config, tel *telemetry.Telemetry) (sink audit.Sink, stop func(), err error) {
	outputs, err := auditout.Open(ctx, cfg, auditout.Params{Service: program, Logger: tel.Logger(), Meter: tel.Meter(scope)})
	if err != nil {
		return nil, func() {}, err
	}
	damper := audit.NewDamper(outputs, tel.Logger())
	return damper, func() {
		damper.Close()
		outputs.Close()
	}, nil
}

// openRecordings returns the store of recordings, and begins to delete old ones until ctx ends. The
// store is nil if nothing is recorded. wait blocks until the deletion has ended. It is never nil.
func openRecordings(ctx context.Context, cfg RecordConfig, logger *slog.Logger) (store *recording.Store, wait func(), err error) {
	var sweeping sync.WaitGroup
	if cfg.Dir == "" {
		return nil, sweeping.Wait, nil
	}
	store, err = recording.NewStore(recording.Params{
		Dir: cfg.Dir, Input: cfg.Input, Required: cfg.Required, MaxSize: int64(cfg.MaxSize), KeepFor: cfg.KeepFor, Logger: logger,
	})
	if err == nil {
		sweeping.Go(func() { store.Run(ctx) })
	}
	return store, sweeping.Wait, err
}

// recorderOf returns nil if nothing is recorded.
func recorderOf(store *recording.Store) kubeproxy.Recorder {
	if store == nil {
		return nil
	}
	return recorder{store: store}
}

// recorder records sessions with a terminal.
type recorder struct {
	store *recording.Store
}

// Evades implements kubeproxy.Recorder.
func (r recorder) Evades(method string, asked kubeapi.Attributes, upgraded bool) bool {
	return r.store.Evades(method, asked, upgraded)
}

// Begin implements kubeproxy.Recorder.
func (r recorder) Begin(ctx context.Context, s kubeproxy.Session) (kubeproxy.Recording, error) {
	info, ok := recording.Describe(s.Method, s.Path, s.Query)
	if !ok {
		return nil, nil
	}
	info.ID, info.Subject, info.Cluster = s.ID, s.Subject, s.Cluster
	begun, err := r.store.Begin(ctx, info)
	if begun == nil { // not an interface that holds nil
		return nil, err
	}
	return begun, nil
}
