// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// Tests are manifests that show whether a service works: those in the folder that the policy names, and those that
// annotations say are tests. They are no part of the service: they are neither pruned nor counted. When all that is desired
// is applied and healthy they run beside the unit's other work, so that drift is put right meanwhile, and only when they
// passed is the service healthy.

// expectTests notes that the tests have to run for what has just been applied. It is stored with it.
func (r *run) expectTests(ctx context.Context) error {
	if !r.news && !r.asked {
		return nil
	}
	tests, run := inventory.Tests{Objects: r.record.Tests.Objects}, rand.Text()
	for i, t := range r.result.Tests {
		o, err := completeTest(ctx, r.cluster, r.service, t, run, i)
		if fatal(ctx, err) {
			return err
		}
		if err == nil && !r.service.Spec.HasTestsDisabled() {
			tests = tests.With(inventory.RefOf(o))
		}
	}
	if len(tests.Objects) > 0 { // which may be only what is to be swept up
		tests.Run, tests.Due = run, true
	}
	r.record.Tests = tests
	return nil
}

// deleteTests deletes what tests have left of a service that goes.
func (r *run) deleteTests(ctx context.Context) error {
	failed := &failedObjects{verb: "delete test"}
	err := each(ctx, r.record.Tests.Objects, refOf, failed, func(ctx context.Context, o inventory.Object) error {
		return r.certain(ctx, o, erase(r.cluster))
	})
	if err != nil {
		return err
	}
	return failed.orNil()
}

// untested tells that tests have to run. u.mu is held, as in what follows.
func (u *unit) untested() bool {
	return u.order == decide.Follow && u.stored.Tests.Due && u.current() && !u.still()
}

// verdict is the phase of a service whose objects are all healthy.
func (u *unit) verdict(drift []report.ObjectDrift) (report.Phase, *reason.Problem) {
	if u.stored.Tests.Due && !u.desired.Spec.DryRun {
		return report.Progressing, nil
	}
	failed, found := u.stored.Tests.Failed()
	if !found {
		return report.Healthy, u.driftProblem(drift)
	}
	message := fmt.Sprintf("test %s failed: %s", failed.Ref.Key, failed.Message)
	if end := lastLines(failed.LogTail); end != "" {
		message += "; its log ends with: " + end
	}
	return report.Degraded, &reason.Problem{Reason: reason.TestFailed, Message: message}
}

// lastLines is what of a log has room in a message.
func lastLines(log string) string {
	const lines, bytes = 3, 300
	all := strings.Split(strings.TrimSpace(log), "\n")
	text := strings.Join(all[max(len(all)-lines, 0):], " | ")
	return strings.ToValidUTF8(text[max(len(text)-bytes, 0):], "")
}

// try runs the tests when it is time for them, ends those of other inputs, and takes over what came of those that ended.
func (u *unit) try(ctx context.Context) {
	u.mu.Lock()
	t, due := u.trial, u.untested()
	ready := due && u.well() && !time.Now().Before(u.retrial)
	record := u.stored.Tests.Run
	u.mu.Unlock()
	switch {
	case t == nil && ready:
		u.trial = startTrial(ctx, u)
	case t == nil:
	case !due || t.tests.Run != record:
		t.end()
		u.trial = nil
	case t.over():
		u.trial = nil
		u.settle(ctx, t)
	}
}

// well tells that all objects are healthy.
func (u *unit) well() bool {
	if !u.objects.AreHealthy() {
		return false
	}
	return u.problem == nil
}

// settle stores what came of tests. Whatever keeps it from that, the tests are looked at again after a while.
func (u *unit) settle(ctx context.Context, t *trial) {
	err := t.err
	u.mu.Lock()
	record := u.stored
	record.Objects = u.objects.Listed()
	u.mu.Unlock()
	if err == nil {
		record.Tests = t.tests
		err = u.engine.params.Inventories.Save(ctx, record)
	}
	if err == nil {
		u.keep(record)
		u.engine.announce(u.name, t.tests)
		return
	}
	if ctx.Err() != nil {
		return
	}
	u.engine.params.Logger.WarnContext(ctx, "tests could not be run, trying again", slog.String("leat.service", u.name), slog.Any("error", err))
	u.mu.Lock()
	defer u.mu.Unlock()
	u.retrials++
	u.retrial = time.Now().Add(u.engine.params.Settings.Retry.Delay(u.retrials))
}

// announce tells those who watch what came of tests.
func (e *Engine) announce(service string, tests inventory.Tests) {
	for _, result := range tests.Results {
		message := "test passed"
		if !result.Passed {
			message = "test failed: " + result.Message
		}
		e.events.publish(report.Event{Time: result.EndedAt, Service: service, Phase: report.Progressing, Object: &result.Ref, Message: message})
	}
}
