// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/leatdev/leat/internal/kit/backoff"
)

// ErrLeadershipLost means that another replica may be the leader now.
var ErrLeadershipLost = errors.New("leadership lost")

const (
	leaseName    = "leat-agent"
	defaultLease = 30 * time.Second
	// versionLabel is the label of the lease with the version of the agent that holds it, or held it last.
	versionLabel = "leat.dev/agent-version"
)

// Leadership is what the agent's replicas settle among themselves in the cluster.
type Leadership struct{ client *Client }

// Leadership returns the leadership of this client's cluster.
func (c *Client) Leadership() *Leadership { return &Leadership{client: c} }

// Election describes a replica's part in an election.
type Election struct {
	// Replica is a name that no other replica has.
	Replica string
	// Version is the agent's, which the lease names from then on. Empty: it names none.
	Version string
	// Lease is how long the other replicas wait for a silent leader. The leader renews it in a
	// sixth of that time, and stops leading after it failed to renew it for two thirds. Zero: 30 s.
	Lease time.Duration
}

// Lead waits until this replica is the leader, runs do, and releases the lease after do has
// returned. It returns the result of do, nil if ctx ended before, and ErrLeadershipLost if the
// lease could not be renewed, which also cancels do's context. Do receives the number of its term.
// If that equals the number of its previous term, or the next one, no other replica has led in
// between.
func (l *Leadership) Lead(ctx context.Context, e Election, do func(ctx context.Context, number int) error) error {
	c := l.client
	lease := cmp.Or(e.Lease, defaultLease)
	set, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	err = backoff.Retry(ctx, backoff.Policy{Initial: time.Second}, func(ctx context.Context) error { return c.EnsureNamespace(ctx, c.namespace) })
	if err != nil {
		return nil // waiting ends only with ctx, and a stop is not a failure
	}
	// The lease outlives ctx until do has returned: the next leader must not begin before.
	electing, stop := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logr.FromSlogHandler(c.logger.Handler())))
	defer stop()
	term := &term{
		ctx: ctx, do: do, leases: set.CoordinationV1().Leases(c.namespace), stop: stop, outcome: make(chan error, 1), logger: c.logger, replica: e.Replica,
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Name: leaseName, Namespace: c.namespace}, Client: set.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.Replica}, Labels: labelsOf(e.Version),
		},
		LeaseDuration: lease, RenewDeadline: lease * 2 / 3, RetryPeriod: lease / 6, ReleaseOnCancel: true, Name: leaseName,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: term.serve, OnStoppedLeading: func() {}, OnNewLeader: term.hear},
	})
	if err != nil {
		return fmt.Errorf("elect a leader: %w", err)
	}
	defer context.AfterFunc(ctx, term.giveUp)()
	elector.Run(electing)
	return term.end()
}

// Leader is what the lease says of the replica that leads, or led last.
type Leader struct {
	// Version is its agent's, in the characters of a label. Empty: no agent has led, or it did not name its version.
	Version string
	// Sign changes whenever the leader renews the lease, and when another one takes it. Empty: no agent has led.
	Sign string
}

// Leader returns the leader of the latest term.
func (l *Leadership) Leader(ctx context.Context) (Leader, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	set, err := kubernetes.NewForConfig(l.client.config)
	if err != nil {
		return Leader{}, fmt.Errorf("make client: %w", err)
	}
	lease, err := set.CoordinationV1().Leases(l.client.namespace).Get(ctx, leaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Leader{}, nil
	}
	if err != nil {
		return Leader{}, fmt.Errorf("read Lease %s: %w", leaseName, err)
	}
	return Leader{Version: lease.Labels[versionLabel], Sign: lease.ResourceVersion}, nil
}

// labelsOf returns the labels of the lease of an agent of that version.
func labelsOf(version string) map[string]string {
	return map[string]string{versionLabel: VersionLabel(version)}
}

// VersionLabel returns a version in the characters of a label's value, of which it may have 63: letters, digits, and
// dots, dashes and underscores between them.
func VersionLabel(version string) string {
	const maxLabel = 63
	text := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, version)
	return strings.Trim(text[:min(len(text), maxLabel)], "._-")
}

// term is one period of waiting for leadership and leading.
type term struct {
	ctx     context.Context //nolint:containedctx // the context of Lead, which calls nothing that could pass it on
	do      func(context.Context, int) error
	leases  coordination.LeaseInterface
	stop    context.CancelFunc // ends the election
	outcome chan error
	logger  *slog.Logger
	replica string

	mu      sync.Mutex
	leading bool // do was called, and outcome will receive its result
	over    bool // do must not be called any more
}

// serve runs do until it returns, the leadership is lost, or ctx ends.
func (t *term) serve(leadership context.Context) {
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return
	}
	t.leading = true
	t.mu.Unlock()
	t.logger.InfoContext(leadership, "this replica leads", slog.String("replica", t.replica))
	ctx, cancel := context.WithCancelCause(t.ctx)
	defer context.AfterFunc(leadership, func() { cancel(ErrLeadershipLost) })()
	err := t.begin(ctx)
	if errors.Is(context.Cause(ctx), ErrLeadershipLost) {
		err = errors.Join(ErrLeadershipLost, err)
	}
	t.outcome <- err
	t.stop()
}

// begin runs do as soon as the number of the term is known. It does not run do if ctx ends before.
func (t *term) begin(ctx context.Context) error {
	number, known := 0, false
	_ = backoff.Retry(ctx, backoff.Policy{Initial: time.Second}, func(ctx context.Context) error {
		lease, err := t.leases.Get(ctx, leaseName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if transitions := lease.Spec.LeaseTransitions; transitions != nil {
			number = int(*transitions)
		}
		known = true
		return nil
	})
	if !known {
		return nil
	}
	return t.do(ctx, number)
}

// hear logs that another replica leads.
func (t *term) hear(leader string) {
	if leader != t.replica {
		t.logger.InfoContext(t.ctx, "another replica leads", slog.String("replica", leader))
	}
}

// giveUp ends the waiting for leadership. A leader ends when do returns.
func (t *term) giveUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.leading {
		t.over = true
		t.stop()
	}
}

// end returns the result of the term.
func (t *term) end() error {
	t.mu.Lock()
	t.over = true
	leading := t.leading
	t.mu.Unlock()
	if !leading {
		return nil
	}
	return <-t.outcome
}
