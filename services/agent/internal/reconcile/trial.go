// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/order"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// maxTestLog is how much is kept of the log of a test that failed, in bytes.
const maxTestLog = 4 << 10

// errTestsLate ends tests that take too long together.
var errTestsLate = errors.New("tests take too long")

// trial is one run of a service's tests, one after the other. It has a goroutine of its own, which only reads what it got when
// it was started.
type trial struct {
	unit    *unit
	service plan.Service
	applied inventory.Applied
	objects inventory.Set // the service's own
	cluster k8s.API       // with the rights of the service
	stop    context.CancelFunc
	done    chan struct{} // closed when it is over

	// until done is closed, these are the goroutine's
	tests inventory.Tests
	err   error // the tests could not be run
	found manifest.Manifests
}

// startTrial starts the tests of what is applied.
func startTrial(ctx context.Context, u *unit) *trial {
	ctx, stop := context.WithCancel(ctx)
	u.mu.Lock()
	t := &trial{
		unit: u, service: u.desired, applied: u.stored.Applied, objects: u.objects.Listed(), stop: stop,
		done: make(chan struct{}), tests: u.stored.Tests,
	}
	u.mu.Unlock()
	go func() {
		t.err = t.run(ctx)
		close(t.done)
		signal(u.wake) // not before: the unit would look, see that nothing is over, and hear nothing more
	}()
	return t
}

func (t *trial) over() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// end stops the tests where they are, and returns when nobody works on them any more. What they made stays, for the next run.
func (t *trial) end() {
	if t != nil {
		t.stop()
		<-t.done
	}
}

func (t *trial) run(ctx context.Context) error {
	defer t.stop()
	var err error
	if t.cluster, err = t.unit.engine.as(t.service.Spec); err != nil {
		return err
	}
	if err := t.load(ctx); err != nil {
		return err
	}
	prepared, err := t.prepare(ctx)
	if err != nil {
		return err
	}
	if err := t.sweep(ctx, prepared); err != nil {
		return err
	}
	limit := t.service.Spec.TestsTimeoutOrDefault()
	within, cancel := context.WithTimeoutCause(ctx, limit, errTestsLate)
	defer cancel()
	t.tests.Results = nil
	for _, p := range prepared {
		result, err := t.one(within, p)
		if err != nil {
			return err
		}
		if result.Passed && !runsOnce(result.Ref.Key) {
			continue // what tests need, such as a ConfigMap
		}
		t.tests.Results = append(t.tests.Results, result)
		if !result.Passed {
			break
		}
	}
	t.tests.Due = false
	return nil
}

// load renders the tests, in a slot.
func (t *trial) load(ctx context.Context) (err error) {
	e := t.unit.engine
	slot := e.slots.take(t.unit.name, ctx.Done())
	if slot == nil {
		return ctx.Err()
	}
	defer e.slots.leave(slot)
	t.found, err = e.renderer().Render(ctx, t.service, t.applied)
	t.found.Objects = nil
	if t.service.Spec.HasTestsDisabled() {
		t.found.Tests = nil
	}
	return err
}

// prepare completes the tests.
func (t *trial) prepare(ctx context.Context) ([]manifest.Test, error) {
	var all []manifest.Test
	for i, p := range t.found.Tests {
		o, err := completeTest(ctx, t.cluster, t.service, p, t.tests.Run, i)
		if fatal(ctx, err) {
			return nil, err
		}
		if err != nil {
			o = p.Object // the apply will say what is wrong with it
		}
		all = append(all, manifest.Test{Object: o, Wave: p.Wave, Deletion: p.Deletion})
	}
	return all, nil
}

// completeTest returns the test, the i-th of its run, as it is applied: with a name, and marked.
func completeTest(ctx context.Context, cluster k8s.API, s plan.Service, p manifest.Test, run string, i int) (*unstructured.Unstructured, error) {
	o, err := complete(ctx, cluster, s, p.Object)
	if err != nil {
		return nil, err
	}
	if o.GetName() == "" {
		o.SetName(nameFor(o.GetGenerateName(), sum(run, strconv.Itoa(i))))
		o.SetGenerateName("")
	}
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[HookLabel], annotations[hookRun] = string(order.Test), run
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	return o, nil
}

// sweep deletes what earlier tests left and nobody needs any more.
func (t *trial) sweep(ctx context.Context, prepared []manifest.Test) error {
	var current inventory.Set
	for _, p := range prepared {
		current.Put(inventory.Object{Ref: inventory.RefOf(p.Object)})
	}
	for _, o := range inventory.NewSet(t.tests.Objects...).Minus(current) {
		if err := t.discard(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// discard deletes an object that a test made, unless it became another's.
func (t *trial) discard(ctx context.Context, o inventory.Object) error {
	r := &run{unit: t.unit, engine: t.unit.engine, cluster: t.cluster, service: t.service}
	if _, own := t.objects.Get(o.Key); !own {
		if err := r.certain(ctx, o, erase(t.cluster)); err != nil {
			return fmt.Errorf("delete test %s: %w", o.Key, err)
		}
	}
	left := inventory.NewSet(t.tests.Objects...)
	left.Remove(o.Key)
	t.tests.Objects = left.Objects()
	return nil
}

// one runs one test. The error is one that is not about the test.
func (t *trial) one(ctx context.Context, p manifest.Test) (inventory.TestResult, error) {
	result := inventory.TestResult{Ref: inventory.RefOf(p.Object), StartedAt: time.Now().UTC()}
	object, err := t.launch(ctx, p.Object)
	var ended outcome
	if err == nil {
		ended, err = t.await(ctx, object)
	}
	late := err != nil && errors.Is(context.Cause(ctx), errTestsLate)
	switch {
	case late:
		ended.failed, ended.message = true, strings.TrimSuffix(fmt.Sprintf("not ended within %v: %s", t.service.Spec.TestsTimeoutOrDefault(), ended.message), ": ")
	case fatal(ctx, err):
		return result, err
	case err != nil:
		ended.failed, ended.message = true, err.Error()
	}
	result.Passed, result.Message, result.EndedAt = !ended.failed, t.found.Substitution.Mask(ended.message), time.Now().UTC()
	if ended.failed && object.UID != "" {
		result.LogTail = t.log(ctx, object)
	}
	return result, t.tidy(context.WithoutCancel(ctx), p, object, ended.failed)
}

// launch makes the test, unless this very run made it before it was interrupted.
func (t *trial) launch(ctx context.Context, o *unstructured.Unstructured) (inventory.Object, error) {
	object := inventory.Object{Ref: inventory.RefOf(o)}
	if _, own := t.objects.Get(object.Key); own {
		return object, reason.Errorf(reason.ManifestInvalid, "is an object of the service, too")
	}
	live, err := t.cluster.Get(ctx, object.Ref)
	if err != nil && !errors.Is(err, k8s.ErrNotFound) {
		return object, err
	}
	if err == nil && live.GetLabels()[k8s.ServiceLabel] != t.service.Name {
		return object, reason.Errorf(reason.ObjectClaimed, "exists already, and no test of this service has made it")
	}
	if err == nil && live.GetDeletionTimestamp() == nil && live.GetAnnotations()[hookRun] == t.tests.Run {
		object.UID = string(live.GetUID())
		return object, nil
	}
	if err == nil && runsOnce(object.Key) {
		if err := t.clear(ctx, inventory.Object{Ref: object.Ref, UID: string(live.GetUID())}); err != nil {
			return object, err
		}
	}
	live, err = t.cluster.Apply(ctx, o, k8s.ApplyOptions{Force: true, Confidential: t.found.IsConfidential(o)})
	if err != nil {
		return object, err
	}
	object.UID = string(live.GetUID())
	return object, nil
}

// clear deletes what an earlier run made, and waits until it is gone.
func (t *trial) clear(ctx context.Context, o inventory.Object) error {
	if err := erase(t.cluster)(ctx, o); err != nil && !errors.Is(err, k8s.ErrReplaced) {
		return err
	}
	return t.watch(ctx, o.Ref, func(live *unstructured.Unstructured) bool {
		return live == nil || string(live.GetUID()) != o.UID
	})
}

// await waits until the test has ended.
func (t *trial) await(ctx context.Context, o inventory.Object) (ended outcome, err error) {
	err = t.watch(ctx, o.Ref, func(live *unstructured.Unstructured) bool {
		if live == nil || string(live.GetUID()) != o.UID {
			ended = outcome{ended: true, failed: true, message: "was deleted before it ended"}
			return true
		}
		ended = t.unit.engine.outcomeOf(live)
		return ended.ended
	})
	return ended, err
}

// watch follows an object until that is true of it.
func (t *trial) watch(ctx context.Context, ref inventory.Ref, until func(*unstructured.Unstructured) bool) error {
	following, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	group.Go(func() {
		t.cluster.Follow(following, ref, func(live *unstructured.Unstructured, err error) {
			if following.Err() == nil && err == nil && until(live) {
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

// log reads the end of the test's log, as far as there is one. The time for the tests may have passed.
func (t *trial) log(ctx context.Context, o inventory.Object) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	// With the rights of the agent: the log is that of an object which the service could make.
	text, err := t.unit.engine.params.Cluster.Logs(ctx, o)
	if err != nil {
		return ""
	}
	text = t.found.Substitution.Mask(strings.ToValidUTF8(text, "�"))
	if over := len(text) - maxTestLog; over > 0 {
		text = strings.ToValidUTF8(text[over:], "")
		if _, rest, found := strings.Cut(text, "\n"); found && rest != "" {
			text = rest // without half a line
		}
	}
	return text
}

// tidy deletes a test that ended, where its policy says so.
func (t *trial) tidy(ctx context.Context, p manifest.Test, o inventory.Object, failed bool) error {
	when := order.OnSuccess
	if failed {
		when = order.OnFailure
	}
	if o.UID == "" || !p.Deletion.Has(when) {
		return nil
	}
	return t.discard(ctx, o)
}
