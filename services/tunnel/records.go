// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"

	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/tunnel/internal/audit"
	"github.com/leatdev/leat/services/tunnel/internal/auditfile"
	"github.com/leatdev/leat/services/tunnel/internal/auditotlp"
	"github.com/leatdev/leat/services/tunnel/internal/kubeapi"
	"github.com/leatdev/leat/services/tunnel/internal/kubeproxy"
	"github.com/leatdev/leat/services/tunnel/internal/recording"
)

// openAudit begins to write audit records. stop returns when the last ones are written, or when
// they take too long. It is never nil.
func openAudit(ctx context.Context, cfg AuditConfig, tel *telemetry.Telemetry) (sink audit.Sink, stop func(), err error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var closers []func() error
	var running sync.WaitGroup
	var fan audit.Fan
	damper := audit.NewDamper(&fan, tel.Logger())
	stop = func() {
		damper.Close()
		cancel()
		running.Wait()
		for _, closer := range closers {
			if err := closer(); err != nil {
				tel.Logger().ErrorContext(ctx, "audit output not closed", slog.String("error", err.Error()))
			}
		}
	}
	outputs := slices.DeleteFunc(slices.Clone(cfg.Outputs), func(name string) bool { return name == auditNone })
	for _, name := range outputs {
		output, closer, err := openOutput(ctx, cfg, name)
		if err != nil {
			return nil, stop, err
		}
		closers = append(closers, closer)
		queue, err := audit.NewQueue(audit.QueueParams{
			Name: name, Output: output, Size: int64(cfg.Queue), Timeout: cfg.Timeout, FailOpen: !cfg.FailClosed,
			Logger: tel.Logger(), Meter: tel.Meter(scope),
		})
		if err != nil {
			return nil, stop, err
		}
		fan = append(fan, queue)
		running.Go(func() {
			if err := queue.Run(ctx); err != nil {
				tel.Logger().ErrorContext(ctx, "audit records lost", slog.String("error", err.Error()))
			}
		})
	}
	return damper, stop, nil
}

func openOutput(ctx context.Context, cfg AuditConfig, name string) (output audit.Output, closer func() error, err error) {
	switch name {
	case auditToFile:
		file, err := auditfile.Open(auditfile.Params{
			Path: cfg.File, MaxSize: int64(cfg.FileMaxSize), MaxAge: cfg.FileMaxAge, Keep: cfg.FileKeep, KeepFor: cfg.FileKeepFor,
			KeepAtLeast: cfg.FileKeepAtLeast, Sync: cfg.FileSync,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("--tunnel-audit-file: %w", err)
		}
		return audit.NewLog(file), file.Close, nil
	case auditOTLP:
		collector, err := auditotlp.New(ctx, "tunnel")
		if err != nil {
			return nil, nil, fmt.Errorf("--tunnel-audit-output=%s: %w", name, err)
		}
		return collector, collector.Close, nil
	default:
		var w io.Writer = os.Stdout
		if cfg.Writer != nil {
			w = cfg.Writer
		}
		return audit.NewLog(w), func() error { return nil }, nil
	}
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
