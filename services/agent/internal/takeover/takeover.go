// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package takeover decides when an agent of another version may follow the one that works.
//
// A new version rehearses first: it renders what the plan asks, compares that with what the working agent has applied,
// and changes nothing. It is ready, and stands for election, once both agree. Until then Kubernetes keeps the former
// pod of a rolling update, and so that one can take the new version back when the hub says so.
//
// If the former agent has been silent for a while, the new version takes over as it is: a cluster that no agent looks
// after cannot be repaired from the hub.
package takeover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
)

const (
	// Patience is how long a leader may be silent until a version that disagrees with it takes over: twenty times the
	// term of its lease, in which Kubernetes has started the former pod again.
	Patience = 10 * time.Minute
	// leaderPause is the time between two looks at the leader, which cost one request.
	leaderPause = 15 * time.Second
	// firstPause and maxPause are the times between two rehearsals, which double. One renders all services, and costs a
	// request for each object.
	firstPause = 15 * time.Second
	maxPause   = 5 * time.Minute
	// maxNamed is how many deviations a message names.
	maxNamed = 3
)

// Leader is the replica that leads, or led last.
type Leader struct {
	// Version is its agent's. Empty: no agent has led, or it did not name its version.
	Version string
	// Sign changes whenever the leader shows that it works.
	Sign string
}

// Params are the settings and collaborators of New. All are required.
type Params struct {
	// Version is this agent's, as leaders name theirs.
	Version string
	// Leader returns the leader of the latest term.
	Leader func(ctx context.Context) (Leader, error)
	// Rehearse compares what this agent would do for the hub's latest plan.
	Rehearse func(ctx context.Context) (reconcile.Rehearsal, error)
	// Warn shows people in the cluster why this agent does not take over.
	Warn   func(ctx context.Context, message string)
	Logger *slog.Logger
}

// Candidate is an agent that may take over. It is safe for concurrent use.
type Candidate struct {
	params Params

	// The first four are Await's alone: the leader's last sign, when this candidate saw it first, when the next rehearsal
	// is due, and the pause after it.
	sign  string
	since time.Time
	due   time.Time
	pause time.Duration

	mu     sync.Mutex
	reason error // why it may not take over; nil: it may
}

// New returns a candidate that may not take over yet.
func New(p Params) *Candidate {
	return &Candidate{params: p, pause: firstPause, reason: errors.New("this version has not looked at the cluster yet")}
}

// Ready returns why the agent may not take over, or nil if it may.
func (c *Candidate) Ready(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reason
}

// Await returns once the agent may take over, or ctx ends.
func (c *Candidate) Await(ctx context.Context) {
	for ctx.Err() == nil {
		reason := c.look(ctx, time.Now())
		if ctx.Err() != nil {
			return
		}
		if c.note(ctx, reason); reason == nil {
			return
		}
		_ = backoff.Wait(ctx, backoff.Jitter(leaderPause, 0.25)) // the loop's condition sees the end of ctx
	}
}

// look returns why the agent may not take over now, or nil if it may.
func (c *Candidate) look(ctx context.Context, now time.Time) error {
	leader, err := c.params.Leader(ctx)
	if err != nil {
		return fmt.Errorf("ask who leads: %w", err)
	}
	if leader.Version == "" || leader.Version == c.params.Version {
		return nil
	}
	if leader.Sign != c.sign || c.since.IsZero() {
		c.sign, c.since = leader.Sign, now
	}
	if now.Sub(c.since) >= Patience {
		c.params.Logger.WarnContext(ctx, "no agent works in this cluster, taking over without a rehearsal that agrees",
			slog.String("last_version", leader.Version), slog.Duration("silence", now.Sub(c.since)))
		return nil
	}
	if now.Before(c.due) {
		return c.Ready(ctx)
	}
	err = c.rehearse(ctx, leader)
	c.due, c.pause = time.Now().Add(backoff.Jitter(c.pause, 0.25)), min(2*c.pause, maxPause)
	return err
}

// rehearse returns why a rehearsal does not agree with the leader, or nil if it does.
func (c *Candidate) rehearse(ctx context.Context, leader Leader) error {
	rehearsal, err := c.params.Rehearse(ctx)
	if err != nil {
		return fmt.Errorf("rehearse: %w", err)
	}
	if len(rehearsal.Deviations) == 0 {
		c.params.Logger.InfoContext(ctx, "this version would do what the one before does, taking over", slog.String("last_version", leader.Version),
			slog.Int("compared", rehearsal.Compared), slog.Int("skipped", rehearsal.Skipped))
		return nil
	}
	for _, d := range rehearsal.Deviations[:min(len(rehearsal.Deviations), maxNamed)] {
		if d.Problem != nil {
			c.params.Logger.WarnContext(ctx, "this version "+d.String(), slog.String("problem", d.Problem.Message))
		}
	}
	return deviates(leader.Version, rehearsal)
}

// deviates returns the error that names the first deviations.
func deviates(version string, r reconcile.Rehearsal) error {
	var named []string
	for _, d := range r.Deviations[:min(len(r.Deviations), maxNamed)] {
		named = append(named, d.String())
	}
	text := strings.Join(named, "; ")
	if more := len(r.Deviations) - maxNamed; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return fmt.Errorf("this version does not do what version %s does: it %s", version, text)
}

// note keeps the reason for Ready, and tells of it when it changes.
func (c *Candidate) note(ctx context.Context, reason error) {
	c.mu.Lock()
	isNews := reason != nil && (c.reason == nil || c.reason.Error() != reason.Error())
	c.reason = reason
	c.mu.Unlock()
	if isNews {
		c.params.Logger.WarnContext(ctx, "this version does not take over yet", slog.Any("error", reason))
		c.params.Warn(ctx, reason.Error())
	}
}
