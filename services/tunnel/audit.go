// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/config"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/tunnel/internal/audit"
	"github.com/leatdev/leat/services/tunnel/internal/auditfile"
	"github.com/leatdev/leat/services/tunnel/internal/auditotlp"
)

// Where audit records can go.
const (
	auditStdout = "stdout"
	auditToFile = "file"
	auditOTLP   = "otlp"
	auditNone   = "none"
)

// AuditConfig says where audit records go, and what happens when they cannot. The zero value writes them to standard
// output, refuses requests that cannot be recorded, and has the defaults below.
type AuditConfig struct {
	// Outputs are stdout, file, otlp, or none alone. Empty means stdout.
	Outputs []string
	// FailOpen lets requests go on whose decision is not written. The flag says the opposite.
	FailOpen bool
	// Queue bounds the records that wait for one output.
	Queue config.Bytes
	// Timeout is how long a decision may take to be written.
	Timeout time.Duration
	// File is the file of the output "file". Its bounds follow.
	File        string
	FileMaxSize config.Bytes
	FileMaxAge  time.Duration
	FileKeep    int
	FileKeepFor time.Duration
	// FileKeepAtLeast is how long old files are kept, regardless of how many there are.
	FileKeepAtLeast time.Duration
	// FileSync waits until records are on the disk.
	FileSync bool
	// Writer receives the audit log in place of standard output. Not a flag.
	Writer io.Writer

	failClosed bool // the flag
}

// Bind binds the fields.
func (c *AuditConfig) Bind(s *config.Set) {
	s.Group("Audit")
	s.Strings(&c.Outputs, "tunnel-audit-output", []string{auditStdout}, "where audit records go: stdout, file, otlp, or none alone")
	s.Bool(&c.failClosed, "tunnel-audit-fail-closed", true, "refuse requests whose decision cannot be recorded; false counts and logs the loss")
	s.Size(&c.Queue, "tunnel-audit-queue", 16<<20, "audit records that may wait for one output")
	s.Duration(&c.Timeout, "tunnel-audit-timeout", 5*time.Second, "how long the record of a decision may take to be written")
	s.String(&c.File, "tunnel-audit-file", "", "file of the output file; each replica needs its own")
	s.Size(&c.FileMaxSize, "tunnel-audit-file-max-size", 100<<20, "size at which a new file begins")
	s.Duration(&c.FileMaxAge, "tunnel-audit-file-max-age", 24*time.Hour, "age at which a new file begins")
	s.Int(&c.FileKeep, "tunnel-audit-file-keep", 10, "old files that are kept, beside those that tunnel-audit-file-keep-at-least keeps; 0 keeps all")
	s.Duration(&c.FileKeepAtLeast, "tunnel-audit-file-keep-at-least", 24*time.Hour,
		"for how long old files are kept however many there are, so that nobody makes the log forget by filling it; 0: no such time")
	s.Duration(&c.FileKeepFor, "tunnel-audit-file-keep-for", 0, "how long old files are kept; 0 is without end")
	s.Bool(&c.FileSync, "tunnel-audit-file-sync", false,
		"wait until records are on the disk, so that they survive the machine's failure and not only the process's")
	s.Check(func() error { c.FailOpen = !c.failClosed; return c.check() })
}

func (c *AuditConfig) outputs() []string {
	if len(c.Outputs) == 0 {
		return []string{auditStdout}
	}
	return c.Outputs
}

func (c *AuditConfig) check() error {
	seen := map[string]bool{}
	for _, output := range c.outputs() {
		switch {
		case !slices.Contains([]string{auditStdout, auditToFile, auditOTLP, auditNone}, output):
			return fmt.Errorf("--tunnel-audit-output: %q is no output; want stdout, file, otlp or none", output)
		case seen[output]:
			return fmt.Errorf("--tunnel-audit-output names %s twice", output)
		case output == auditNone && len(c.Outputs) > 1:
			return errors.New("--tunnel-audit-output: none stands alone")
		case output == auditToFile && c.File == "":
			return errors.New("--tunnel-audit-output=file needs --tunnel-audit-file")
		}
		seen[output] = true
	}
	if c.File != "" && !seen[auditToFile] {
		return errors.New("--tunnel-audit-file is set, but --tunnel-audit-output does not name file")
	}
	for name, value := range map[string]int64{
		"tunnel-audit-queue": int64(c.Queue), "tunnel-audit-timeout": int64(c.Timeout),
		"tunnel-audit-file-max-size": int64(c.FileMaxSize), "tunnel-audit-file-max-age": int64(c.FileMaxAge),
		"tunnel-audit-file-keep": int64(c.FileKeep), "tunnel-audit-file-keep-for": int64(c.FileKeepFor),
		"tunnel-audit-file-keep-at-least": int64(c.FileKeepAtLeast),
	} {
		if value < 0 {
			return fmt.Errorf("--%s must not be negative", name)
		}
	}
	return nil
}

// startAudit begins to write audit records. stop returns when the last ones are written, or when they take too long.
func startAudit(ctx context.Context, cfg AuditConfig, tel *telemetry.Telemetry) (sink audit.Sink, stop func(), err error) {
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
	for _, name := range cfg.outputs() {
		if name == auditNone {
			continue
		}
		output, closer, err := cfg.open(ctx, name)
		if err != nil {
			stop()
			return nil, nil, err
		}
		closers = append(closers, closer)
		queue, err := audit.NewQueue(cfg.queue(name, output, tel.Logger(), tel.Meter(scope)))
		if err != nil {
			stop()
			return nil, nil, err
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

func (c *AuditConfig) queue(name string, output audit.Output, logger *slog.Logger, meter metric.Meter) audit.QueueParams {
	return audit.QueueParams{
		Name: name, Output: output, Size: int64(c.Queue), Timeout: c.Timeout, FailOpen: c.FailOpen, Logger: logger, Meter: meter,
	}
}

func (c *AuditConfig) open(ctx context.Context, name string) (output audit.Output, closer func() error, err error) {
	switch name {
	case auditToFile:
		file, err := auditfile.Open(auditfile.Params{
			Path: c.File, MaxSize: int64(c.FileMaxSize), MaxAge: c.FileMaxAge, Keep: c.FileKeep, KeepFor: c.FileKeepFor,
			KeepAtLeast: c.FileKeepAtLeast, Sync: c.FileSync,
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
		if c.Writer != nil {
			w = c.Writer
		}
		return audit.NewLog(w), func() error { return nil }, nil
	}
}
