// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/accounts"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
)

// applying returns a service with one ConfigMap and one Role, as an account and in a namespace.
func (w *world) applying(t *testing.T, name, account, namespace string) plan.Service {
	t.Helper()
	s := w.service(t, name, name, "Role:"+name)
	s.Spec.Namespace, s.Spec.Policy.ServiceAccount = namespace, account
	s.SpecDigest += account
	return s
}

// watched returns the collections that are observed, in short form.
func (w *world) watched() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.kinds {
		all = append(all, fmt.Sprintf("%s %s %s", c.Kind.Kind, c.Scope.Account, c.Scope.Namespace))
	}
	return all
}

// TestSecWatchesSpeakForTheirAccount locks a cluster. The agent then watches ConfigMaps as the
// accounts of services, and a watch of one account means nothing for services of another account or
// namespace.
func TestSecWatchesSpeakForTheirAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reconcile.Settings{})
		stop := w.runUntil(t)
		former := w.applying(t, "former", "", "team-a") // with the agent's own rights
		w.plan(former)
		pass(t, time.Second)
		stop()

		var err error
		if w.lock, err = accounts.NewLock(true, nil, "leat-system"); err != nil {
			t.Fatal(err)
		}
		w.engine = w.newEngine()
		stop = w.runUntil(t)
		services := []plan.Service{
			former, w.applying(t, "one", "x", "team-a"), w.applying(t, "two", "y", "team-a"), w.applying(t, "three", "team-a/x", "team-b"),
		}
		w.plan(services...)
		pass(t, time.Second)
		want := []string{"ConfigMap team-a/x team-a", "ConfigMap team-a/x team-b", "ConfigMap team-a/y team-a", "Role  "}
		if got := w.watched(); !slices.Equal(got, want) {
			t.Errorf("got watches of %q, want %q", got, want)
		}
		if all, err := w.engine.Objects("former"); err != nil || !strings.Contains(all[0].Health.Message, "the agent of this cluster is locked") {
			t.Errorf("a service without an account: got %+v, %v, want why its ConfigMap is not observed", all, err)
		}
		pass(t, 3*time.Hour) // until it is checked again, although nothing has changed
		if got := w.status("former").Problem; got == nil || got.Reason != reason.TenantForbidden {
			t.Errorf("a service without an account: got %v, want TENANT_FORBIDDEN", got)
		}
		stop()

		// A new process hears of complete lists that hold nothing. Only objects in their scope are
		// missing.
		w.engine = w.newEngine()
		known := make(chan struct{}, 10)
		w.onWatch = func([]observe.Collection) { known <- struct{}{} }
		w.run(t)
		<-known // one union of all services, before any list
		if got := w.watched(); !slices.Equal(got, want) {
			t.Errorf("after a restart: got watches of %q, want %q at once", got, want)
		}
		w.plan(services...)
		w.applied = nil
		for key := range w.objects {
			if key.Kind == "ConfigMap" {
				delete(w.objects, key)
			}
		}
		x := observe.Scope{Account: k8s.Account{Namespace: "team-a", Name: "x"}, Namespace: "team-a"}
		w.engine.Synced(schema.GroupKind{Kind: "ConfigMap"}, x)
		pass(t, time.Second)
		w.assertApplied(t, "one")
		w.engine.MarkUnobservable(schema.GroupKind{Kind: "ConfigMap"}, observe.Scope{Account: k8s.Account{Namespace: "team-a", Name: "y"}, Namespace: "team-a"}, "denied")
		pass(t, time.Second)
		for service, message := range map[string]string{"two": "denied", "three": ""} {
			all, err := w.engine.Objects(service)
			if err != nil || len(all) != 2 || all[0].Health.Message != message {
				t.Errorf("%s: got %+v, %v, want the message %q", service, all, err, message)
			}
		}
		for service, isOwned := range map[string]bool{"one": true, "three": true, "two": false, "former": false, "nobody": false} {
			if got := w.engine.Owns(x, service); got != isOwned {
				t.Errorf("a watch of account x: got %v for service %s, want %v", got, service, isOwned)
			}
		}

		// Watches of the new account of a service have ignored its objects so far.
		rechecks := w.rechecks
		services[2] = w.applying(t, "two", "x", "team-a")
		w.plan(services...)
		pass(t, time.Second)
		if got := w.watched(); w.rechecks != rechecks+1 || len(got) != 3 || !w.engine.Owns(x, "two") {
			t.Errorf("another account: got %d lists and watches of %q, want one list of all, and x alone", w.rechecks-rechecks, got)
		}
		services[0] = w.applying(t, "former", "x", "team-a")
		services = append(services, w.applying(t, "four", "x", "team-a"))
		w.plan(services...)
		pass(t, time.Second)
		if w.rechecks != rechecks+2 || !w.engine.Owns(x, "former") || !w.engine.Owns(x, "four") {
			t.Errorf("a first account, and a new service: got %d lists, want one more, because objects of the former existed", w.rechecks-rechecks)
		}
	})
}
