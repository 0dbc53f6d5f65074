// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/agent/internal/accounts"
	"github.com/leatdev/leat/services/agent/internal/overview"
)

const (
	// describePause is the minimum time between two descriptions. The first change is reported at
	// once, and further changes of the same second together.
	describePause = time.Second
	// versionPause is the minimum time between two requests for the API server's version, however
	// often the connection is lost.
	versionPause = time.Minute
	// versionInterval is the maximum time between two such requests.
	versionInterval = time.Hour
	versionTimeout  = 30 * time.Second
	versionJitter   = 0.25
)

// DescriberParams are the settings and collaborators of NewDescriber.
type DescriberParams struct {
	Reports *Reports
	// Summary is the overview of the cluster. Nil: it is not reported.
	Summary *overview.Summary
	// Version returns the API server's version.
	Version func(context.Context) (string, error)
	// AgentVersion is the agent's own version, and Capabilities its sorted capabilities.
	AgentVersion string
	Capabilities []string
	// Lock is the cluster's own.
	Lock   accounts.Lock
	Logger *slog.Logger
}

// Describer reports agent and cluster to the hub whenever they change, at most once a second.
type Describer struct {
	params DescriberParams
	ask    wake.Signal // one token when the version may be another
	told   wake.Signal // one token when something below is another

	mu          sync.Mutex // guards what follows
	version     string     // of the API server; empty before its first answer
	isHubLocked bool
}

// NewDescriber returns a Describer that reports nothing before Run.
func NewDescriber(p DescriberParams) *Describer {
	return &Describer{params: p, ask: wake.NewSignal(), told: wake.NewSignal()}
}

// Back reports that the API server was away, and may be another one now. It returns at once, and is
// safe for concurrent use.
func (d *Describer) Back() { d.ask.Set() }

// SetHubLock reports whether the plan's settings lock the cluster. It returns at once, and is safe for
// concurrent use.
func (d *Describer) SetHubLock(isLocked bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isHubLocked != isLocked {
		d.isHubLocked = isLocked
		d.told.Set()
	}
}

// Run reports changes until ctx is done; then it returns nil.
func (d *Describer) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { d.followVersion(ctx) })

	started, changed := timestamppb.Now(), (<-chan struct{})(nil)
	if d.params.Summary != nil {
		changed = d.params.Summary.Changed()
	}
	for ctx.Err() == nil {
		d.params.Reports.Describe(d.describe(started))
		_ = backoff.Wait(ctx, describePause) // the loop's condition sees the end of ctx
		select {
		case <-ctx.Done():
		case <-changed:
		case <-d.told:
		}
	}
	return nil
}

func (d *Describer) describe(started *timestamppb.Timestamp) *distributorv1.ClusterReport {
	d.mu.Lock()
	version, isHubLocked := d.version, d.isHubLocked
	d.mu.Unlock()
	report := &distributorv1.ClusterReport{
		AgentVersion: d.params.AgentVersion, Capabilities: d.params.Capabilities,
		StartedAt: started, KubernetesVersion: version,
		Lock: &distributorv1.ClusterLock{
			Local: d.params.Lock.IsLocked(), Hub: isHubLocked, AllowedAccounts: d.params.Lock.Allowed(),
		},
	}
	if d.params.Summary != nil {
		current := d.params.Summary.Current()
		report.Overview = overviewOf(current)
		if current.Nodes != nil {
			report.Provider = current.Nodes.Provider
		}
		report.Nodes = report.GetOverview().GetNodes().GetCount()
	}
	return report
}

// followVersion requests the API server's version until ctx is done: at the start, when the server
// is back, and every versionInterval.
func (d *Describer) followVersion(ctx context.Context) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		callCtx, cancel := context.WithTimeout(ctx, versionTimeout)
		version, err := d.params.Version(callCtx)
		cancel()
		if err != nil {
			d.params.Logger.DebugContext(ctx, "API server does not return its version", slog.Any("error", err))
			_ = backoff.Wait(ctx, backoff.Default().Delay(attempt)) // the loop's condition sees the end of ctx
			continue
		}
		attempt = -1
		d.hear(version)
		_ = backoff.Wait(ctx, versionPause)
		_ = d.ask.Await(ctx, backoff.Jitter(versionInterval, versionJitter)-versionPause)
	}
}

func (d *Describer) hear(version string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.version != version {
		d.version = version
		d.told.Set()
	}
}

func overviewOf(o overview.Overview) *distributorv1.ClusterOverview {
	wire := &distributorv1.ClusterOverview{}
	if n := o.Nodes; n != nil {
		wire.Nodes = &distributorv1.NodesOverview{
			Count: clamp(n.Count), Ready: clamp(n.Ready), Cordoned: clamp(n.Cordoned),
			Capacity: totalsOf(n.Capacity), Allocatable: totalsOf(n.Allocatable), KubeletVersions: make(map[string]int32, len(n.Kubelets)),
		}
		for version, nodes := range n.Kubelets {
			wire.Nodes.KubeletVersions[version] = clamp(nodes)
		}
	}
	if p := o.Pods; p != nil {
		wire.Pods = &distributorv1.PodsOverview{
			Pending: clamp(p.Pending), Running: clamp(p.Running), Succeeded: clamp(p.Succeeded), Failed: clamp(p.Failed), Unknown: clamp(p.Unknown),
		}
	}
	if w := o.Warnings; w != nil {
		wire.Warnings = &distributorv1.WarningsOverview{Count: clamp(w.Count)}
		for _, warning := range w.Latest {
			wire.Warnings.Latest = append(wire.Warnings.Latest, &distributorv1.ClusterWarning{
				Reason: warning.Reason, Kind: warning.Kind, Namespace: warning.Namespace, Name: warning.Name,
				Message: warning.Message, Times: clamp(warning.Times), LastSeenAt: timeOf(warning.LastSeen),
			})
		}
	}
	return wire
}

func totalsOf(r overview.Resources) *distributorv1.ResourceTotals {
	return &distributorv1.ResourceTotals{CpuMillis: r.CPUMillis, MemoryBytes: r.MemoryBytes, Pods: r.Pods}
}
