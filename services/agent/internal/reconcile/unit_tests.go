// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"log/slog"
	"time"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/reconcile/execute"
	"github.com/leatdev/leat/services/agent/internal/reconcile/slots"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// testRun is one run of a service's tests, in a goroutine of its own. Only the unit's goroutine
// uses it.
type testRun struct {
	id   string // names the run in the inventory
	stop context.CancelCauseFunc
	done chan struct{} // closed when the tests have ended

	tests inventory.Tests // valid once done is closed
	err   error           // why the tests could not be run; valid once done is closed
}

// advanceTests starts the tests when it is time for them, ends tests of other inputs, and takes
// over the results of ended ones.
func (u *unit) advanceTests(ctx context.Context) {
	u.mu.Lock()
	needs := u.state.NeedsTests()
	isReady := needs && u.state.Attempt.Problem == nil && !time.Now().Before(u.state.TestsRetryAt) && u.objects.AreHealthy()
	id := u.state.Stored.Tests.Run
	u.mu.Unlock()
	switch {
	case u.tests == nil && isReady:
		u.tests = u.startTests(ctx)
	case u.tests == nil:
	case !needs || u.tests.id != id:
		u.tests.end()
		u.tests = nil
		u.test.Store(nil)
	case u.tests.hasEnded():
		ended := u.tests
		u.tests = nil
		u.settleTests(ctx, ended)
		u.test.Store(nil)
	}
}

// startTests starts the tests of the applied objects.
func (u *unit) startTests(ctx context.Context) *testRun {
	ctx, stop := context.WithCancelCause(ctx)
	u.mu.Lock()
	job := execute.TestJob{
		Name: u.name, Service: u.state.Desired, Applied: u.state.Stored.Applied, Objects: u.objects.Listed(),
		Tests: u.state.Stored.Tests,
		Running: func(running inventory.TestResult) {
			u.test.Store(&running)
			u.Wake()
		},
		Turn: slots.NewTurn(ctx, stop, u.shared.slots, u.name, u.shared.settings.ApplyTimeout),
	}
	u.mu.Unlock()
	t := &testRun{id: job.Tests.Run, stop: stop, done: make(chan struct{})}
	go func() {
		defer stop(nil)
		t.tests, t.err = u.shared.executor.Test(ctx, job)
		close(t.done)
		u.Wake() // not before: the unit would see that nothing has ended, and miss the end
	}()
	return t
}

func (t *testRun) hasEnded() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// end ends the tests, and blocks until they have ended. The objects that they have created stay for
// the next run. Nil has ended.
func (t *testRun) end() {
	if t != nil {
		t.stop(nil)
		<-t.done
	}
}

// settleTests stores the results of tests. If they could not be run or stored, they are tried again
// after a while.
func (u *unit) settleTests(ctx context.Context, t *testRun) {
	record := u.storedRecord()
	err := t.err
	if err == nil {
		record.Tests = t.tests
		err = u.shared.inventories.Save(ctx, record)
	}
	if err == nil {
		u.Saved(record)
		u.shared.announceTests(u.name, t.tests)
		return
	}
	if ctx.Err() != nil {
		return
	}
	u.shared.logger.WarnContext(ctx, "tests could not be run, trying again", slog.String("leat.service", u.name), slog.Any("error", err))
	u.mu.Lock()
	defer u.mu.Unlock()
	u.state.TestsFailed++
	u.state.TestsRetryAt = time.Now().Add(u.shared.settings.Retry.Delay(u.state.TestsFailed))
}

// announceTests publishes the results of tests.
func (s *shared) announceTests(service string, tests inventory.Tests) {
	for _, result := range tests.Results {
		message := "test passed"
		if !result.Passed {
			message = "test failed: " + result.Message
		}
		s.events.publish(report.Event{
			Time: result.EndedAt, Service: service, Phase: report.Progressing, Object: &result.Ref, Message: message,
		})
	}
}
