// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/agent/internal/control"
	"github.com/leatdev/leat/services/agent/internal/kube"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/takeover"
)

// replica is this process among those of its cluster.
type replica struct {
	cfg       Config
	telemetry *telemetry.Telemetry
	cluster   *kube.Client
}

// assembled makes every part, with the identity that the cluster keeps. Nothing runs yet. The caller closes the parts.
func (r *replica) assembled(ctx context.Context, tel *telemetry.Telemetry) (*parts, error) {
	if !r.cfg.LocalIdentity {
		if err := restoreIdentity(ctx, r.cfg.DataDir, r.cluster.Keep(), r.telemetry.Logger()); err != nil {
			return nil, err
		}
	}
	return assemble(r.cfg, tel, r.cluster)
}

// work runs the agent.
func (r *replica) work(ctx context.Context, health *serve.Health) (err error) {
	p, err := r.assembled(ctx, r.telemetry)
	if err != nil && ctx.Err() == nil {
		return err
	}
	if p == nil {
		return nil // being stopped is no failure
	}
	defer func() { err = errors.Join(err, p.close()) }()
	health.Register("plan", p.plans.Ready)
	return p.run(ctx)
}

// candidate returns what decides when this replica may follow one of another version. An agent that the hub dials
// takes over as it is: the hub dials the pod that is ready, so this one could not ask for the plan before.
func (r *replica) candidate() *takeover.Candidate {
	logger := r.telemetry.Logger()
	return takeover.New(takeover.Params{
		Version: kube.VersionLabel(r.cfg.version()),
		Leader: func(ctx context.Context) (takeover.Leader, error) {
			if r.cfg.dialled() {
				return takeover.Leader{}, nil
			}
			leader, err := r.cluster.Leadership().Leader(ctx)
			return takeover.Leader(leader), err
		},
		Rehearse: r.rehearse,
		Warn: func(ctx context.Context, message string) {
			if r.cfg.PodUID == "" {
				return
			}
			if err := r.cluster.Leadership().Warn(ctx, r.cfg.PodUID, "TakeoverWaits", message); err != nil {
				logger.WarnContext(ctx, "event cannot be created", slog.Any("error", err))
			}
		},
		Logger: logger,
	})
}

// rehearse compares what this replica would do for the hub's plan with what the cluster has. Its parts are its own, so a
// replica that waits for weeks holds nothing, and works with the identity of the day on which it begins. Only bundles
// stay, in the data folder.
func (r *replica) rehearse(ctx context.Context) (found reconcile.Rehearsal, err error) {
	p, err := r.assembled(ctx, r.telemetry.Unmeasured())
	if err != nil {
		return reconcile.Rehearsal{}, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	ctx, stop := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		_ = p.store.Run(ctx, nil) // returns only why ctx ended
		return nil
	})
	group.Go(func() error {
		defer stop()
		wanted, err := p.plans.Fetch(ctx)
		if err != nil {
			return err
		}
		found, err = p.engine.Rehearse(ctx, wanted)
		return err
	})
	return found, group.Wait()
}

// lead runs do once it is this replica's turn.
func lead(ctx context.Context, cfg Config, cluster *kube.Client, do func(context.Context) error) error {
	name, err := replicaName(cfg.DataDir)
	if err != nil {
		return err
	}
	return cluster.Leadership().Lead(ctx, kube.Election{Replica: name, Version: cfg.version()}, func(ctx context.Context, term int) error {
		if err := succeed(cfg.DataDir, term); err != nil {
			return err
		}
		return do(ctx)
	})
}

// replicaName tells this replica from others, also from one that runs on the same host: a name that
// is made once for each data folder. A replica that was killed and starts again has its own lease
// at once.
func replicaName(dir string) (string, error) {
	path := filepath.Join(dir, "replica")
	name, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(name) == 0 { // it was there, and the disk full
		name = []byte(rand.Text())
		err = os.WriteFile(path, name, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("name replica: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name replica: %w", err)
	}
	return host + "_" + string(name), nil
}

// succeed begins a term of leadership. A plan that the folder holds from before others led need not
// be the latest: followed while the hub does not answer, it would take the cluster back to what it
// was. So it is forgotten.
func succeed(dir string, term int) error {
	const none = -1
	path, last := filepath.Join(dir, "term"), none
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("begin term: %w", err)
	}
	if number, err := strconv.Atoi(string(text)); err == nil {
		last = number
	}
	if term != last && term != last+1 {
		if err := control.ForgetPlan(dir); err != nil {
			return err
		}
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(term)), 0o600); err != nil {
		return fmt.Errorf("begin term: %w", err)
	}
	return nil
}

// restoreIdentity brings the identity back from the cluster, however long that takes to answer.
// Where the agent may not read it, it continues without. The end of ctx is an error.
func restoreIdentity(ctx context.Context, dir string, keep control.Keep, logger *slog.Logger) error {
	err := backoff.Retry(ctx, backoff.Policy{Initial: time.Second}, func(ctx context.Context) error {
		err := control.RestoreIdentity(ctx, dir, keep, logger)
		if apierrors.IsForbidden(err) || errors.Is(err, fs.ErrPermission) {
			return backoff.Permanent(err)
		}
		if err != nil && ctx.Err() == nil {
			logger.WarnContext(ctx, "identity cannot be restored, trying again", slog.Any("error", err))
		}
		return err
	})
	if apierrors.IsForbidden(err) {
		logger.WarnContext(ctx, "agent may not read its identity in the cluster, going on without", slog.Any("error", err))
		err = nil
	}
	return err
}

// serveProfiles serves profiles of this process until ctx is done. An empty address serves none.
func serveProfiles(ctx context.Context, address string, logger *slog.Logger) error {
	if address == "" {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serve profiles: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	logger.InfoContext(ctx, "profiles are served", slog.String("address", listener.Addr().String()))
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve profiles: %w", err)
	}
	return nil
}
