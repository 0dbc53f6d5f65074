// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
)

const (
	// maxSending bounds the messages that are being sent at once.
	maxSending = 16
	// settleTimeout bounds the write after an attempt, which must not be lost when the hub stops.
	settleTimeout = 10 * time.Second
)

// Sender sends messages for one term. Its methods are safe for concurrent use.
type Sender struct {
	store   Store
	fleet   Fleet
	sink    Sink
	metrics *Metrics
	logger  *slog.Logger
	term    int64
	now     func() time.Time
	settled func() // called after each attempt

	running sync.WaitGroup
	mu      sync.Mutex
	routes  map[string]*route // by notifier
	sending int
}

// route is the way to one receiver.
type route struct {
	isBusy   bool
	failures int
	// until is when the pause after a failure ends.
	until time.Time
	pace  *rate.Limiter
	max   int // messages in a minute, of pace
}

// Pass begins to send messages that may be sent now, and reports whether it began any. It waits for
// none of them.
func (s *Sender) Pass(ctx context.Context) (bool, error) {
	now := s.now()
	notifiers := map[string]*catalog.Notifier{}
	for _, n := range s.fleet.Notifiers() {
		notifiers[n.UID] = n
	}
	skip, room := s.skipped(notifiers, now)
	if room == 0 || len(notifiers) == 0 {
		return false, nil
	}
	items, err := s.store.Take(ctx, s.term, now, now.Add(claimFor), skip, room)
	if err != nil {
		return false, err
	}
	for _, item := range items {
		n, ok := notifiers[item.NotifierUID]
		if !ok {
			continue // it is new, or going: the message is taken again
		}
		s.begin(n.UID, now)
		s.running.Go(func() { s.send(ctx, n, item) })
	}
	return len(items) > 0, nil
}

// Wait waits until nothing is being sent.
func (s *Sender) Wait() { s.running.Wait() }

// skipped returns the notifiers for which nothing can be sent now, and how many messages can be sent
// for others.
func (s *Sender) skipped(notifiers map[string]*catalog.Notifier, now time.Time) (skip []string, room int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid := range s.routes {
		if notifiers[uid] == nil && !s.routes[uid].isBusy {
			delete(s.routes, uid)
		}
	}
	for uid, n := range notifiers {
		r := s.routes[uid]
		if r == nil {
			r = new(route)
			s.routes[uid] = r
		}
		if most := n.Spec.PerMinute(); r.max != most {
			r.max, r.pace = most, rate.NewLimiter(rate.Limit(float64(most)/time.Minute.Seconds()), most)
		}
		if n.Spec.Suspended || r.isBusy || now.Before(r.until) || r.pace.TokensAt(now) < 1 {
			skip = append(skip, uid)
		}
	}
	return skip, maxSending - s.sending
}

func (s *Sender) begin(uid string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.routes[uid]
	r.isBusy = true
	r.pace.AllowN(now, 1)
	s.sending++
}

// end notes what came of an attempt, and returns the failures in a row before it.
func (s *Sender) end(uid string, judge func(failures int) Verdict) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sending--
	r := s.routes[uid]
	v := judge(r.failures)
	r.isBusy = false
	switch {
	case v.Sent:
		r.failures = 0
	case v.Pause > 0:
		r.failures++
		r.until = v.At.Add(v.Pause)
	}
	return v
}

func (s *Sender) send(ctx context.Context, n *catalog.Notifier, item Item) {
	err := s.attempt(ctx, n, item)
	v := s.end(n.UID, func(failures int) Verdict { return Judge(item, err, failures, s.now()) })
	s.metrics.count(n, v)
	if v.Dead {
		s.logger.WarnContext(ctx, "notification given up; leat notifier dead-letters shows it",
			slog.String("notifier", n.Name), slog.String("id", item.Message.ID), slog.String("error", v.Error))
	}
	writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	// An outcome that is not written causes another delivery later, with the same id.
	if err := s.store.Settle(writing, s.term, v); err != nil && !errors.Is(err, election.ErrDeposed) {
		s.logger.WarnContext(ctx, "result of a notification not stored; it may be sent again", slog.String("notifier", n.Name), slog.Any("error", err))
	}
	s.settled()
}

func (s *Sender) attempt(ctx context.Context, n *catalog.Notifier, item Item) error {
	secrets, err := s.store.NotifierSecrets(ctx, n.UID)
	if err != nil {
		return err
	}
	d := Delivery{Notifier: n, Secrets: secrets, Message: item.Message, Commit: item.Commit}
	if d.Text, err = item.Message.Text(ctx, n.Spec.Text); err != nil {
		s.logger.InfoContext(ctx, "text of a notifier cannot be made; the default one is sent", slog.String("notifier", n.Name), slog.Any("error", err))
	}
	if item.Commit != (Commit{}) {
		d.Tally, d.URL = s.fleet.Tally(n, item.Commit)
	}
	_, err = s.sink.Send(ctx, d)
	return err
}

// Tester sends examples on request. It is safe for concurrent use.
type Tester struct {
	Store Store
	Sink  Sink
}

// Test sends an example once. It returns the message's id, and the receiver's answer or why there is
// none; isTaken reports whether the receiver took it. The error is the store's.
func (t Tester) Test(ctx context.Context, n *catalog.Notifier, at time.Time) (id, answer string, isTaken bool, err error) {
	if n.Spec.Sink.Commit != nil {
		return "", "a commit status has no test: it would change a commit; look at the notifier's status after the next change of a service", false, nil
	}
	secrets, err := t.Store.NotifierSecrets(ctx, n.UID)
	if err != nil {
		return "", "", false, err
	}
	id = rand.Text()
	d := Delivery{Notifier: n, Secrets: secrets, Message: notice.Example(notice.Test, id, at)}
	d.Text, _ = d.Message.Text(ctx, n.Spec.Text)
	answer, err = t.Sink.Send(ctx, d)
	if err != nil {
		return id, err.Error(), false, nil //nolint:nilerr // it is the answer
	}
	return id, answer, true, nil
}
