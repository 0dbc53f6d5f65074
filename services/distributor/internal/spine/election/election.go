// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package election has one of the replicas of the hub lead, for each kind of work that one replica
// does at a time.
//
// # Promises
//
// A term has one leader, and terms only grow. A write that names a term is stored while the term
// lasts, or not at all: a leader that was frozen, or cut off from the database, writes nothing once
// another one leads. It may still be at work for a while, because it notices with its next beat or
// write.
//
// A leader beats every five seconds. Another replica takes over once it has seen no beat for half a
// minute, and within seconds after the leader has resigned. No clocks are compared: each replica
// measures how long the tenure has not changed.
//
// # What it does not do
//
// It does not watch the work. A leader beats as long as its process lives and reaches the database,
// so the work itself bounds what it waits for.
package election

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/kit/backoff"
)

const (
	// lookEvery is the mean time between two readings of the tenure, of a replica that does not lead.
	lookEvery = 2 * time.Second
	// beatEvery is how often a leader beats, and silence how long others wait for a beat.
	beatEvery = 5 * time.Second
	silence   = 30 * time.Second
	// resignTimeout bounds the end of a term, which also bounds the stop of a replica.
	resignTimeout = 5 * time.Second
)

// ErrDeposed means that the term has ended, or has not begun. Nothing was written.
var ErrDeposed = errors.New("another replica leads")

// Tenure is the state of an election. It is comparable: while the leader lives, Beat changes.
type Tenure struct {
	// Holder names the leader. Empty: there is none.
	Holder     string
	Term, Beat int64
}

// Store keeps the tenure of one election; sqlstore implements it. Its methods may be called
// concurrently, by all replicas. Errors match catalog.ErrUnavailable if the database does not answer.
// Package electiontest has the suite that every implementation passes.
type Store interface {
	// Tenure returns the stored tenure.
	Tenure(ctx context.Context) (Tenure, error)
	// Claim makes holder the leader of a new term if the tenure is still the one that the caller saw,
	// and reports whether it is.
	Claim(ctx context.Context, holder string, seen Tenure) (term int64, ok bool, err error)
	// Beat shows that the leader lives. Every write in a term does, too. Errors: ErrDeposed.
	Beat(ctx context.Context, term int64) error
	// Resign ends the term: the next leader need not wait, and no write of the term succeeds any more.
	// Errors: ErrDeposed.
	Resign(ctx context.Context, term int64) error
}

// Params are one replica's part in an election, all required.
type Params struct {
	Store Store
	// Holder names this replica, and no other process ever.
	Holder string
	// IsNeeded reports whether there is anything to do. While there is not, nothing is asked of the
	// store. Every replica calls it each two seconds, so it must be cheap.
	IsNeeded func() bool
	// Lead does the work of a leader until ctx is done, or until there is nothing to do. The cause of
	// ctx is ErrDeposed if another replica took over. An error that Lead returns ends the term; the
	// election continues.
	Lead func(ctx context.Context, term int64) error
	// Subject and Work are words of log lines: Subject waits, and a replica does the Work.
	Subject, Work string
	Logger        *slog.Logger
}

// Run takes part in an election until ctx is done, and returns its cause.
func Run(ctx context.Context, p Params) error {
	c := candidate{Params: p}
	for {
		if p.IsNeeded() {
			c.report(ctx, c.look(ctx))
		}
		if err := backoff.Wait(ctx, backoff.Jitter(lookEvery, 0.25)); err != nil {
			return err
		}
	}
}

// candidate is a replica that takes part.
type candidate struct {
	Params

	last     Tenure
	changed  time.Time // when the tenure was seen to change; zero: it has to be seen again
	isFailed bool
}

// look reads the tenure, and leads if no replica does or the leader is silent.
func (c *candidate) look(ctx context.Context) error {
	seen, err := c.Store.Tenure(ctx)
	if err != nil {
		return err
	}
	if seen != c.last || c.changed.IsZero() {
		c.last, c.changed = seen, time.Now()
	}
	if seen.Holder != "" && time.Since(c.changed) < silence {
		return nil
	}
	c.changed = time.Time{}
	return c.tryLead(ctx, seen)
}

// report logs the first failure of several, and the success after it.
func (c *candidate) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil && !c.isFailed:
		c.Logger.WarnContext(ctx, c.Subject+" wait; trying again", slog.Any("error", err))
	case err == nil && c.isFailed:
		c.Logger.InfoContext(ctx, c.Subject+" continue")
	}
	c.isFailed = err != nil
}

// tryLead leads if no other replica is faster. It returns when the term has ended.
func (c *candidate) tryLead(ctx context.Context, seen Tenure) error {
	term, ok, err := c.Store.Claim(ctx, c.Holder, seen)
	if err != nil || !ok {
		return err
	}
	c.report(ctx, nil) // a failure of this term is the first again, however long it lasts
	c.Logger.InfoContext(ctx, "this replica "+c.Work, slog.Int64("term", term))
	if err = c.lead(ctx, term); !errors.Is(err, ErrDeposed) {
		resigning, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
		defer cancel()
		err = errors.Join(err, c.Store.Resign(resigning, term))
	}
	// A leader whose connection broke while it was frozen learns that it is deposed when it resigns.
	if errors.Is(err, ErrDeposed) {
		c.Logger.WarnContext(ctx, "another replica "+c.Work+" now", slog.Int64("term", term))
		return nil
	}
	return err
}

// lead does the work, and beats until it ends. The first of both that fails ends the other one.
func (c *candidate) lead(ctx context.Context, term int64) error {
	group, working := errgroup.WithContext(ctx)
	beating, rest := context.WithCancel(working)
	group.Go(func() error { return c.beat(beating, term) })
	group.Go(func() error {
		defer rest()
		return c.Lead(working, term)
	})
	return group.Wait()
}

// beat shows that the leader lives, until ctx is done.
func (c *candidate) beat(ctx context.Context, term int64) error {
	for backoff.Wait(ctx, beatEvery) == nil {
		if err := c.Store.Beat(ctx, term); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}
