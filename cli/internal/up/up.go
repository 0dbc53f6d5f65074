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
	"io"
	"os"
	"sync"
	"time"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/localtls"
	"github.com/leatdev/leat/cli/internal/up/report"
	"github.com/leatdev/leat/cli/internal/up/statedir"
	"github.com/leatdev/leat/cli/internal/up/supervise"
)

// Params are what Run needs besides a user's options.
type Params struct {
	Options   Options
	Report    report.Reporter
	Command   string                            // absolute path of leat
	LookupEnv func(string) (string, bool)       // as os.LookupEnv; OTEL_ variables are passed on to the services
	LookPath  func(file string) (string, error) // as exec.LookPath
	LogOutput io.Writer                         // also receives the logs if Options.Verbose is set
}

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
	u := &up{Params: p, dir: dir, group: supervise.New()}
	defer func() { err = errors.Join(err, dir.Close()) }()
	defer func() { err = u.stop(ctx, err) }()

	running, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-u.group.Failed():
			cancel() // a part that fails ends every wait
		case <-running.Done():
		}
	})
	defer watching.Wait()
	defer cancel()
	return u.run(running)
}

func dirFailure(err error) error {
	if inUse, ok := errors.AsType[*statedir.InUseError](err); ok {
		return failure.New(inUse.Error(), "Use that one, stop it, or start this one elsewhere: --data-dir DIR --listen 127.0.0.1:0.")
	}
	return failure.File(err, "Choose another folder with --data-dir.")
}

// up is the state of one run.
type up struct {
	Params

	dir   *statedir.Dir
	group *supervise.Group
	logs  []io.Closer

	ports  *listeners
	certs  localtls.Files
	client *client.Client
	plan   plan

	kube     *kube // nil if the clusters are the user's or kind's
	clusters []report.Cluster

	reporting sync.Mutex // a reporter takes one event at a time
}

// run starts a hub step by step and runs it until ctx ends.
func (u *up) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		u.prepare,
		u.startHub,
		u.fillCatalog,
		u.startClusters,
		u.writeAccess,
		u.deliver,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// prepare checks what would fail later, opens the ports and makes certificates.
func (u *up) prepare(ctx context.Context) (err error) {
	u.tell("leat up", "storing everything in "+u.dir.Path())
	if err := u.findKube(ctx); err != nil {
		return err
	}
	if u.ports, err = listen(ctx, u.Options.Listen); err != nil {
		return err
	}
	u.certs, err = localtls.Ensure(u.dir.Path(), host(u.Options.Listen))
	return err
}

// stop ends everything that was started. A requested end is not a failure.
func (u *up) stop(ctx context.Context, cause error) error {
	asked := ctx.Err() != nil
	if failed := u.group.Err(); failed != nil {
		cause = partFailure(failed)
	} else if asked {
		cause = nil
	}
	if u.group.Len() > 0 {
		why := "stopping"
		if cause != nil {
			why = "stopping, because something failed"
		}
		u.report(report.Event{Kind: report.Stopping, Message: why})
	}
	errs := []error{cause, u.group.Stop()}
	if u.ports != nil {
		errs = append(errs, u.ports.Close())
	}
	for _, log := range u.logs {
		errs = append(errs, log.Close())
	}
	if cause == nil {
		u.report(report.Event{Kind: report.Stopped})
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

func (u *up) tell(part, message string) {
	u.report(report.Event{Kind: report.Progress, Part: part, Message: message})
}

func (u *up) report(e report.Event) {
	u.reporting.Lock()
	defer u.reporting.Unlock()
	e.Time = time.Now()
	u.Report(e)
}

// openLog returns a part's log. It is closed when everything has stopped.
func (u *up) openLog(part string) (io.Writer, error) {
	f, err := os.OpenFile(u.dir.Log(part), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	u.logs = append(u.logs, f)
	if u.Options.Verbose {
		return io.MultiWriter(f, u.LogOutput), nil
	}
	return f, nil
}
