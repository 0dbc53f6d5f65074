// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/services/agent/internal/accounts"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
)

// isPrivate reports whether the agent of a locked cluster does not read objects of a kind itself.
func isPrivate(kind schema.GroupKind) bool {
	return kind == schema.GroupKind{Kind: "Secret"} || kind == schema.GroupKind{Kind: "ConfigMap"}
}

// lockedOut is why private objects of a service are not observed.
const lockedOut = "the agent of this cluster is locked, and observes Secrets and ConfigMaps with the service's account only, which is missing or not allowed"

// hide reports that no account may observe some kinds of a service's objects.
func hide(objects *observe.Objects, kinds []schema.GroupKind) {
	for _, kind := range kinds {
		objects.SetUnobservable(kind, "", lockedOut)
	}
}

// place is a collection of any version.
type place struct {
	kind  schema.GroupKind
	scope observe.Scope
}

// watchedService lists the kinds that one service wants to be observed.
type watchedService struct {
	account  k8s.Account
	places   map[place]string // with the version in which its objects are applied
	existing map[place]bool   // the scopes with objects that are in the cluster already
}

// watchedKinds sets the watches to the union of what all services want. It is safe for concurrent
// use.
//
// In a cluster with a lock of its own, Secrets and ConfigMaps are observed once for each account
// and namespace, as the account. The agent needs no right to read them then, so no hub can use one.
// All other kinds are observed in the whole cluster, as the agent.
type watchedKinds struct {
	watches Watches
	lock    accounts.Lock

	mu       sync.Mutex // held across Watch, so that an older union never follows a newer one
	services map[string]watchedService
	// wanted counts the services that want a collection, by its version: a cluster has thousands of services, and each of
	// them is set several times in a run.
	wanted map[place]map[string]int
}

func newWatchedKinds(watches Watches, lock accounts.Lock) *watchedKinds {
	return &watchedKinds{watches: watches, lock: lock, services: map[string]watchedService{}, wanted: map[place]map[string]int{}}
}

// load sets what all services of a new process want by what their records list. It returns the
// kinds that no account may observe for each of them. All services are known before the first watch
// begins, because a watch ignores objects of none of its account's services.
func (w *watchedKinds) load(records []inventory.Record) (hidden map[string][]schema.GroupKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	hidden = map[string][]schema.GroupKind{}
	for _, record := range records {
		now, kinds := w.wantsOf(record)
		hidden[record.Service] = kinds
		w.replaceLocked(record.Service, now)
	}
	w.watches.Watch(w.unionLocked())
	return hidden
}

// set replaces what a service wants by what its record lists. It returns the kinds that no account
// may observe for it.
func (w *watchedKinds) set(service string, record inventory.Record) (hidden []schema.GroupKind) {
	now, hidden := w.wantsOf(record)
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.services[service]
	if before.account == now.account && maps.Equal(before.places, now.places) {
		return hidden
	}
	w.replaceLocked(service, watchedService{})
	hasMissed := w.hasMissedLocked(before, now)
	w.replaceLocked(service, now)
	w.watches.Watch(w.unionLocked())
	if hasMissed {
		w.watches.Recheck()
	}
	return hidden
}

// hasMissedLocked reports whether a watch that runs for other services has ignored objects of a
// service, because they did not belong to its account before.
func (w *watchedKinds) hasMissedLocked(before, now watchedService) bool {
	for at := range now.existing {
		_, isOld := before.places[at]
		if _, isRunning := w.wanted[at]; isRunning && !isOld {
			return true
		}
	}
	return false
}

// replaceLocked replaces what a service wants. A service without places is forgotten.
func (w *watchedKinds) replaceLocked(service string, now watchedService) {
	for at, version := range w.services[service].places {
		if w.wanted[at][version]--; w.wanted[at][version] == 0 {
			delete(w.wanted[at], version)
		}
		if len(w.wanted[at]) == 0 {
			delete(w.wanted, at)
		}
	}
	delete(w.services, service)
	for at, version := range now.places {
		if w.wanted[at] == nil {
			w.wanted[at] = map[string]int{}
		}
		w.wanted[at][version]++
	}
	if len(now.places) > 0 {
		w.services[service] = now
	}
}

// wantsOf returns what the service of a record wants, and the kinds that no account may observe for
// it.
func (w *watchedKinds) wantsOf(record inventory.Record) (now watchedService, hidden []schema.GroupKind) {
	account, err := k8s.ParseAccount(record.Account, "")
	isHidden := w.lock.IsLocked() && (err != nil || w.lock.Admit(account) != nil)
	now = watchedService{account: account, places: map[place]string{}, existing: map[place]bool{}}
	for _, o := range record.Objects.Objects() {
		at := place{kind: o.GroupKind()}
		if w.lock.IsLocked() && isPrivate(at.kind) {
			if isHidden {
				hidden = append(hidden, at.kind)
				continue
			}
			at.scope = observe.Scope{Account: account, Namespace: o.Namespace}
			if o.UID != "" {
				now.existing[at] = true
			}
		}
		now.places[at] = o.Version
	}
	return now, slices.Compact(hidden)
}

// accountOf returns the account of a service; zero for the agent's own, and for unknown services.
func (w *watchedKinds) accountOf(service string) k8s.Account {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.services[service].account
}

// unionLocked returns all collections in order.
func (w *watchedKinds) unionLocked() []observe.Collection {
	var list []observe.Collection
	for at, versions := range w.wanted {
		version := slices.Max(slices.Collect(maps.Keys(versions))) // any version, if it is always the same
		list = append(list, observe.Collection{Kind: at.kind.WithVersion(version), Scope: at.scope})
	}
	slices.SortFunc(list, func(a, b observe.Collection) int {
		return cmp.Or(strings.Compare(a.Kind.String(), b.Kind.String()), strings.Compare(a.Scope.Account.String(), b.Scope.Account.String()),
			strings.Compare(a.Scope.Namespace, b.Scope.Namespace))
	})
	return list
}
