// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/order"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/slots"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// Tests are manifests that show whether a service works: those in the folder that the policy names,
// and those with an annotation for tests. They are not part of the service: they are neither pruned
// nor counted. They run beside other runs of the service, so that drift is corrected meanwhile.

// maxTestLog is how much of the log of a failed test is kept, in bytes.
const maxTestLog = 4 << 10

// errTestsLate ends tests that exceed their common timeout.
var errTestsLate = errors.New("tests take too long")

// TestJob is one run of a service's tests, one after the other.
type TestJob struct {
	// Name is the service's name, Service the applied entry.
	Name    string
	Service plan.Service
	// Applied is the applied state, and Objects are the service's own objects.
	Applied inventory.Applied
	Objects inventory.Set
	// Tests is the record of earlier tests. Its Run names this run.
	Tests inventory.Tests
	// Turn is the right to render the manifests. The run releases it after that.
	Turn *slots.Turn
	// Running is called when a test begins, and when its state, which is its message, has changed. It
	// must return at once.
	Running func(inventory.TestResult)
}

// tester carries out a TestJob.
type tester struct {
	TestJob

	x         *Executor
	r         *run // without an inventory; deletes objects
	cluster   k8s.API
	manifests manifest.Manifests
	// needed are objects that a later test may need, such as a Service, and that are deleted once all tests have ended.
	needed []inventory.Object
}

// Test runs the tests and returns their results. An error means that they could not be run, and are
// due again. Objects that they have created then stay for the next run.
func (x *Executor) Test(ctx context.Context, job TestJob) (inventory.Tests, error) {
	account, cluster, err := x.as(job.Service.Spec)
	if err != nil {
		return job.Tests, err
	}
	t := &tester{TestJob: job, x: x, cluster: cluster, r: x.newRun(Job{Name: job.Name, Service: job.Service}, account, cluster)}
	err = t.run(ctx)
	return t.Tests, err
}

func (t *tester) run(ctx context.Context) error {
	if err := t.render(ctx); err != nil {
		return err
	}
	prepared, err := t.prepare(ctx)
	if err != nil {
		return err
	}
	if err := t.sweep(ctx, prepared); err != nil {
		return err
	}
	within, cancel := context.WithTimeoutCause(ctx, t.Service.Spec.TestsTimeoutOrDefault(), errTestsLate)
	defer cancel()
	t.Tests.Results = nil
	for _, one := range prepared {
		result, err := t.runOne(within, one)
		if err != nil {
			return err
		}
		if result.Passed && !RunsOnce(result.Ref.Key) {
			continue // an object that tests need, such as a ConfigMap
		}
		t.Tests.Results = append(t.Tests.Results, result)
		if !result.Passed {
			break
		}
	}
	for _, o := range t.needed {
		if err := t.discard(ctx, o); err != nil {
			return err
		}
	}
	t.Tests.Due = false
	return nil
}

// render renders the tests.
func (t *tester) render(ctx context.Context) (err error) {
	if !t.Turn.Take() {
		return context.Cause(ctx)
	}
	defer t.Turn.Release()
	t.manifests, err = t.x.params.Renderer.Render(ctx, t.Service, t.Applied)
	t.manifests.Objects = nil
	if t.Service.Spec.HasTestsDisabled() {
		t.manifests.Tests = nil
	}
	return err
}

// prepare completes the tests.
func (t *tester) prepare(ctx context.Context) ([]manifest.Test, error) {
	var all []manifest.Test
	for i, one := range t.manifests.Tests {
		o, err := completeTest(ctx, t.cluster, t.Service, one, t.Tests.Run, i)
		if isFatal(ctx, err) {
			return nil, err
		}
		if err != nil {
			o = one.Object // its apply will report the error
		}
		all = append(all, manifest.Test{Object: o, Wave: one.Wave, Deletion: one.Deletion})
	}
	return all, nil
}

// completeTest returns a test, the i-th of its run, in its applied form: with a name, and marked.
func completeTest(
	ctx context.Context, cluster k8s.Reader, s plan.Service, t manifest.Test, run string, i int,
) (*unstructured.Unstructured, error) {
	o, err := complete(ctx, cluster, s, t.Object)
	if err != nil {
		return nil, err
	}
	if o.GetName() == "" {
		o.SetName(generatedName(o.GetGenerateName(), shortHash(run, strconv.Itoa(i))))
		o.SetGenerateName("")
	}
	mark(o, order.Test, run)
	return o, nil
}

// sweep deletes objects of earlier tests that no test needs any more.
func (t *tester) sweep(ctx context.Context, prepared []manifest.Test) error {
	var current inventory.Set
	for _, one := range prepared {
		current.Put(inventory.Object{Ref: inventory.RefOf(one.Object)})
	}
	for _, o := range inventory.NewSet(t.Tests.Objects...).Minus(current) {
		if err := t.discard(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// discard deletes an object that a test has created, unless it became an object of a service.
func (t *tester) discard(ctx context.Context, o inventory.Object) error {
	if _, isObject := t.Objects.Get(o.Key); !isObject {
		if err := t.r.withLiveObject(ctx, o, deleteInBackground(t.cluster)); err != nil {
			return fmt.Errorf("delete test %s: %w", o.Key, err)
		}
	}
	left := inventory.NewSet(t.Tests.Objects...)
	left.Remove(o.Key)
	t.Tests.Objects = left.Objects()
	return nil
}

// runOne runs one test. A returned error does not concern the test: the cluster does not answer, or
// the tests were cancelled. A test that exceeds the timeout has failed.
func (t *tester) runOne(ctx context.Context, one manifest.Test) (inventory.TestResult, error) {
	result := inventory.TestResult{Ref: inventory.RefOf(one.Object), StartedAt: time.Now().UTC()}
	t.Running(result)
	object, err := t.launch(ctx, one.Object)
	var state end
	if err == nil {
		state, err = t.awaitEnd(ctx, object, result)
	}
	isLate := err != nil && errors.Is(context.Cause(ctx), errTestsLate)
	switch {
	case isLate:
		late := fmt.Sprintf("not ended within %v: %s", t.Service.Spec.TestsTimeoutOrDefault(), state.message)
		state.hasFailed, state.message = true, strings.TrimSuffix(late, ": ")
	case isFatal(ctx, err):
		return result, err
	case err != nil:
		state.hasFailed, state.message = true, err.Error()
	}
	result.Passed, result.Message, result.EndedAt = !state.hasFailed, t.manifests.Substitution.Mask(state.message), time.Now().UTC()
	if state.hasFailed && object.UID != "" {
		result.LogTail = t.logTail(ctx, object)
	}
	return result, t.deleteEnded(context.WithoutCancel(ctx), one, object, state.hasFailed)
}

// launch creates the test, unless this run created it before an interruption. A test that runs once
// is deleted first if an earlier run has created it.
func (t *tester) launch(ctx context.Context, o *unstructured.Unstructured) (inventory.Object, error) {
	object := inventory.Object{Ref: inventory.RefOf(o)}
	if _, isObject := t.Objects.Get(object.Key); isObject {
		return object, reason.Errorf(reason.ManifestInvalid, "is an object of the service, too")
	}
	live, err := t.cluster.Get(ctx, object.Ref)
	if err != nil && !errors.Is(err, k8s.ErrNotFound) {
		return object, err
	}
	exists := err == nil
	if exists && k8s.ServiceOf(live) != t.Service.Name {
		return object, reason.Errorf(reason.ObjectClaimed, "exists already, and no test of this service has made it")
	}
	if exists && live.GetDeletionTimestamp() == nil && live.GetAnnotations()[HookRunAnnotation] == t.Tests.Run {
		object.UID = string(live.GetUID())
		return object, nil
	}
	if exists && RunsOnce(object.Key) {
		if err := t.deleteEarlier(ctx, inventory.Object{Ref: object.Ref, UID: string(live.GetUID())}); err != nil {
			return object, err
		}
	}
	live, err = t.cluster.Apply(ctx, o, k8s.ApplyOptions{Force: true, Confidential: t.manifests.IsConfidential(o)})
	if err != nil {
		return object, err
	}
	object.UID = string(live.GetUID())
	return object, nil
}

// deleteEarlier deletes the object of an earlier run, and blocks until it is gone.
func (t *tester) deleteEarlier(ctx context.Context, o inventory.Object) error {
	if err := deleteInBackground(t.cluster)(ctx, o); err != nil && !errors.Is(err, k8s.ErrReplaced) {
		return err
	}
	return t.followUntil(ctx, o.Ref, func(live *unstructured.Unstructured) bool {
		return live == nil || string(live.GetUID()) != o.UID
	})
}

// awaitEnd blocks until the test has ended. Meanwhile it announces the test's state.
func (t *tester) awaitEnd(ctx context.Context, o inventory.Object, running inventory.TestResult) (ended end, err error) {
	err = t.followUntil(ctx, o.Ref, func(live *unstructured.Unstructured) bool {
		if live == nil || string(live.GetUID()) != o.UID {
			ended = end{hasEnded: true, hasFailed: true, message: "was deleted before it ended"}
			return true
		}
		ended = endOf(live, t.x.params.Judge)
		if !ended.hasEnded {
			running.Message = report.Line(t.manifests.Substitution.Mask(ended.message))
			t.Running(running)
		}
		return ended.hasEnded
	})
	return ended, err
}

// followUntil follows an object until the condition holds.
func (t *tester) followUntil(ctx context.Context, ref inventory.Ref, holds func(*unstructured.Unstructured) bool) error {
	following, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	group.Go(func() {
		t.cluster.Follow(following, ref, func(live *unstructured.Unstructured, err error) {
			if following.Err() == nil && err == nil && holds(live) {
				stop()
			}
		})
	})
	group.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("wait for test: %w", context.Cause(ctx))
	}
	return nil
}

// logTail returns the end of the test's log, or "". It works even after the timeout of the tests.
func (t *tester) logTail(ctx context.Context, o inventory.Object) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	// The agent's rights are enough here: the service could create the object, so it may read the
	// object's log.
	text, err := t.x.params.Cluster.Logs(ctx, o)
	if err != nil {
		return ""
	}
	text = t.manifests.Substitution.Mask(strings.ToValidUTF8(text, "�"))
	if over := len(text) - maxTestLog; over > 0 {
		text = strings.ToValidUTF8(text[over:], "")
		if _, rest, found := strings.Cut(text, "\n"); found && rest != "" {
			text = rest // without half a line
		}
	}
	return text
}

// deleteEnded deletes a test that has ended, if its policy demands it. What only helps tests, and is no test itself, is
// deleted after the last one, as by Helm.
func (t *tester) deleteEnded(ctx context.Context, one manifest.Test, o inventory.Object, hasFailed bool) error {
	when := order.OnSuccess
	if hasFailed {
		when = order.OnFailure
	}
	switch {
	case o.UID == "" || !one.Deletion.Has(when):
		return nil
	case !hasFailed && !RunsOnce(o.Key):
		t.needed = append(t.needed, o)
		return nil
	}
	return t.discard(ctx, o)
}
