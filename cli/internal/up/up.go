// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package up implements `leat up`: a whole hub, clusters with their agents and a repository in one
// process, to try Leat out on a laptop and to develop against.
//
// The services are the real ones, run by the same Run functions as in production. Only Redis and
// SQL are embedded, behind the same ports. Everything is kept in one folder, and the next start
// continues from there: the same tokens, the same clusters, agents that are already enrolled.
package up

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/up/report"
	"github.com/leatdev/leat/cli/internal/up/statedir"
	"github.com/leatdev/leat/cli/internal/up/supervise"
)

// Run starts everything, reports progress, and runs until ctx ends or a part fails. Then it stops
// everything. It returns nil if ctx ended it.
func Run(ctx context.Context, p Params) (err error) {
	if err := p.Options.Check(); err != nil {
		return err
	}
	dir, err := statedir.Open(p.Options.DataDir)
	if err != nil {
		return dirFailure(err)
	}
	b := &base{Params: p, dir: dir, group: supervise.New()}
	defer func() { err = errors.Join(err, dir.Close()) }()
	defer func() { err = stop(ctx, b, err) }()

	running, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-b.group.Failed():
			cancel() // a part that fails ends every wait
		case <-running.Done():
		}
	})
	defer watching.Wait()
	defer cancel()
	return run(running, b)
}

func dirFailure(err error) error {
	if inUse, ok := errors.AsType[*statedir.InUseError](err); ok {
		return failure.New(inUse.Error(), "Use that one, stop it, or start this one elsewhere: --data-dir DIR --listen 127.0.0.1:0.")
	}
	return failure.File(err, "Choose another folder with --data-dir.")
}

// run starts a hub step by step, and follows what it delivers until ctx ends. It first checks
// everything that would fail later.
func run(ctx context.Context, b *base) error {
	b.tell("leat up", "storing everything in "+b.dir.Path())
	local, err := findKube(ctx, b)
	if err != nil {
		return err
	}
	h, err := openHub(ctx, b)
	if err != nil {
		return err
	}
	if err := h.start(ctx); err != nil {
		return err
	}
	api, err := client.New(client.Params{Server: h.url(), Token: b.dir.AdminToken})
	if err != nil {
		return err
	}
	p, err := newPlan(b.Options, h.repositoryURL())
	if err != nil {
		return err
	}
	if err := (&catalog{base: b, client: api}).fill(ctx, p); err != nil {
		return err
	}
	started, err := (&clusters{base: b, hub: h, client: api, kube: local}).start(ctx, p.clusters)
	if err != nil {
		return err
	}
	if err := writeAccess(h, started); err != nil {
		return err
	}
	return (&deliveries{base: b, hub: h, client: api, kube: local, plan: p, clusters: started}).run(ctx)
}

// stop ends everything that was started. A requested end is not a failure.
func stop(ctx context.Context, b *base, cause error) error {
	asked := ctx.Err() != nil
	if failed := b.group.Err(); failed != nil {
		cause = partFailure(failed)
	} else if asked {
		cause = nil
	}
	if b.group.Len() > 0 {
		why := "stopping"
		if cause != nil {
			why = "stopping, because something failed"
		}
		b.report(report.Event{Kind: report.Stopping, Message: why})
	}
	errs := []error{cause, b.group.Stop()}
	for _, opened := range b.opened {
		errs = append(errs, opened.Close())
	}
	if cause == nil {
		b.report(report.Event{Kind: report.Stopped})
	}
	return errors.Join(errs...)
}

// partFailure returns a failure that names the failed part, the cause, and its log.
func partFailure(err error) error {
	failed, ok := errors.AsType[*supervise.Failure](err)
	if !ok {
		return err
	}
	f := failure.New(fmt.Sprintf("%s failed: %v", failed.Part, failed.Err), "")
	if failed.Log != "" {
		f.Advice = "Its log is " + failed.Log + "."
	}
	return f
}
