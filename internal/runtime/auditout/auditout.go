// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package auditout opens the outputs of a service's audit log, as its flags name them: standard
// output, a file, a collector, or none.
package auditout

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/auditfile"
	"github.com/leatdev/leat/internal/runtime/auditotlp"
	"github.com/leatdev/leat/internal/runtime/config"
)

// Where audit records can go.
const (
	toStdout = "stdout"
	toFile   = "file"
	toOTLP   = "otlp"
	toNone   = "none"
)

// Config sets where audit records go, and the effect of a failure to write them.
type Config struct {
	// Outputs are stdout, file, otlp, or none alone.
	Outputs []string
	// FailClosed refuses requests whose decision cannot be recorded.
	FailClosed bool
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
}

// Bind binds the fields to the flags of a service, such as --tunnel-audit-output, and sets their
// defaults.
func (c *Config) Bind(s *config.Set, service string) {
	name := func(flag string) string { return service + "-audit-" + flag }
	s.Group("Audit")
	s.Strings(&c.Outputs, name("output"), []string{toStdout}, "where audit records go: stdout, file, otlp, or none alone")
	s.Bool(&c.FailClosed, name("fail-closed"), true,
		"refuse requests whose decision cannot be recorded; false counts and logs the loss")
	s.Size(&c.Queue, name("queue"), 16<<20, "audit records that may wait for one output")
	s.Duration(&c.Timeout, name("timeout"), 5*time.Second, "how long the record of a decision may take to be written")
	s.String(&c.File, name("file"), "", "file of the output file; each replica needs its own")
	s.Size(&c.FileMaxSize, name("file-max-size"), 100<<20, "size at which a new file begins")
	s.Duration(&c.FileMaxAge, name("file-max-age"), 24*time.Hour, "age at which a new file begins")
	s.Int(&c.FileKeep, name("file-keep"), 10,
		"old files that are kept, beside those that "+name("file-keep-at-least")+" keeps; 0 keeps all")
	s.Duration(&c.FileKeepAtLeast, name("file-keep-at-least"), 24*time.Hour,
		"how long old files are kept however many there are, so that no caller can push records out of the log by filling it; 0: no such time")
	s.Duration(&c.FileKeepFor, name("file-keep-for"), 0, "how long old files are kept; 0: without limit")
	s.Bool(&c.FileSync, name("file-sync"), false,
		"wait until records are on the disk, so that they survive the machine's failure and not only the process's")
}

// Check returns the defects of the settings of a service.
func (c *Config) Check(service string) error {
	flag := "--" + service + "-audit-"
	seen := map[string]bool{}
	for _, output := range c.Outputs {
		switch {
		case !slices.Contains([]string{toStdout, toFile, toOTLP, toNone}, output):
			return fmt.Errorf("%soutput: got %s, want stdout, file, otlp or none", flag, output)
		case seen[output]:
			return fmt.Errorf("%soutput: got %s twice, want each output once", flag, output)
		case output == toNone && len(c.Outputs) > 1:
			return fmt.Errorf("%soutput: got %s, want none alone", flag, strings.Join(c.Outputs, ","))
		}
		seen[output] = true
	}
	if seen[toFile] != (c.File != "") {
		return fmt.Errorf("%sfile: got %q, want a file with %soutput=file, and only then", flag, c.File, flag)
	}
	return nil
}

// Params are the collaborators of [Open], all required.
type Params struct {
	// Service is the service whose records these are, such as "tunnel".
	Service string
	Logger  *slog.Logger
	Meter   metric.Meter
}

// Outputs are the open outputs.
type Outputs struct {
	audit.Fan

	params  Params
	cancel  context.CancelFunc
	running sync.WaitGroup
	closers []func() error
}

// Open opens the outputs and begins to write records, until [Outputs.Close].
func Open(ctx context.Context, cfg Config, p Params) (*Outputs, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	o := &Outputs{params: p, cancel: cancel}
	for _, name := range cfg.Outputs {
		if name == toNone {
			continue
		}
		if err := o.add(ctx, cfg, name); err != nil {
			o.Close()
			return nil, err
		}
	}
	return o, nil
}

func (o *Outputs) add(ctx context.Context, cfg Config, name string) error {
	output, closer, err := openOutput(ctx, cfg, name, o.params.Service)
	if err != nil {
		return err
	}
	o.closers = append(o.closers, closer)
	queue, err := audit.NewQueue(audit.QueueParams{
		Name: name, Output: output, Size: int64(cfg.Queue), Timeout: cfg.Timeout, FailOpen: !cfg.FailClosed,
		Logger: o.params.Logger, Meter: o.params.Meter,
	})
	if err != nil {
		return err
	}
	o.Fan = append(o.Fan, queue)
	o.running.Go(func() {
		if err := queue.Run(ctx); err != nil {
			o.params.Logger.ErrorContext(ctx, "audit records lost", slog.String("error", err.Error()))
		}
	})
	return nil
}

// Close returns when the last records are written, or when they take too long.
func (o *Outputs) Close() {
	o.cancel()
	o.running.Wait()
	ctx := context.Background() // the service's own has ended
	for _, closer := range o.closers {
		if err := closer(); err != nil {
			o.params.Logger.ErrorContext(ctx, "audit output not closed", slog.String("error", err.Error()))
		}
	}
}

func openOutput(ctx context.Context, cfg Config, name, service string) (output audit.Output, closer func() error, err error) {
	switch name {
	case toFile:
		file, err := auditfile.Open(auditfile.Params{
			Path: cfg.File, MaxSize: int64(cfg.FileMaxSize), MaxAge: cfg.FileMaxAge, Keep: cfg.FileKeep, KeepFor: cfg.FileKeepFor,
			KeepAtLeast: cfg.FileKeepAtLeast, Sync: cfg.FileSync,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("--%s-audit-file: %w", service, err)
		}
		return audit.NewLog(file), file.Close, nil
	case toOTLP:
		collector, err := auditotlp.New(ctx, service)
		if err != nil {
			return nil, nil, fmt.Errorf("--%s-audit-output=%s: %w", service, name, err)
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
