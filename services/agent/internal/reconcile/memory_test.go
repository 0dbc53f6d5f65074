// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/leatdev/leat/internal/testkit/heap"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
)

const (
	memoryServices = 50
	memoryObjects  = 200 // in each
	memoryBar      = 310 // bytes an object, with what there is once for each service
)

// TestMemory measures the memory of an engine for 10,000 objects that an earlier process applied
// and that watches have observed: inventories, claims, fingerprints and observations.
func TestMemory(t *testing.T) { // not parallel: it measures the heap
	var used int64
	for _, services := range []int{1, memoryServices} { // what is made once, with the first, is left out
		synctest.Test(t, func(t *testing.T) { used = keptOf(t, services) })
	}
	used /= memoryServices * memoryObjects
	t.Logf("%d bytes an object", used)
	if used > memoryBar {
		t.Errorf("heap: got %d bytes an object, want at most %d", used, memoryBar)
	}
}

// keptOf returns the memory of an idle engine with that many services, in bytes. It runs in a
// bubble.
func keptOf(t *testing.T, services int) int64 {
	t.Helper()
	w := newWorld(reconcile.Settings{})
	stored := &encoded{inventories: inventories{w}}
	for service := range services {
		stored.add(t, w, fmt.Sprintf("service-%d", service))
	}
	engine := reconcile.New(reconcile.Params{
		Cluster: w, Bundles: w, Configs: w, Inventories: stored, Reporter: w, Watches: w, Facts: w, Fingerprints: prints{w}, Logger: slog.New(slog.DiscardHandler),
	})
	before := heap.Live()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	synctest.Wait()
	for service := range services {
		for object := range memoryObjects {
			engine.Observe(remembered(fmt.Sprintf("service-%d", service), object))
		}
	}
	synctest.Wait()
	used := heap.Live() - before
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return used
}

// encoded are inventories in their stored form.
type encoded struct {
	inventories

	heads  [][]byte
	shards [][][]byte
}

// add stores a service of an earlier process.
func (e *encoded) add(t *testing.T, w *world, service string) {
	t.Helper()
	record, table := inventory.Record{Service: service}, fingerprint.Table{}
	for object := range memoryObjects {
		o := remembered(service, object)
		record.Objects.Put(o.Object)
		table[o.Object.Key] = fingerprint.Kept{Manifest: fingerprint.Text([]byte(o.Object.UID)), Applied: o.Fingerprint}
	}
	head, shards, err := record.Encode()
	if err != nil {
		t.Fatal(err)
	}
	e.heads, e.shards = append(e.heads, head), append(e.shards, shards)
	w.prints[service] = table.Encode()
}

// List implements reconcile.Inventories.
func (e *encoded) List(context.Context) (records []inventory.Record, err error) {
	for i := range e.heads {
		record, err := inventory.Decode(e.heads[i], e.shards[i])
		if err != nil {
			return nil, err
		}
		records = append(records, record)
	}
	return records, nil
}

// remembered returns the observation of one of the objects.
func remembered(service string, object int) observe.Observation {
	kind := []string{"ConfigMap", "Secret", "Service", "ServiceAccount"}[object%4]
	return observe.Observation{
		Service: service, ResourceVersion: fmt.Sprint(1_000_000 + object), Health: health.Verdict{State: health.Healthy},
		Object: inventory.Object{
			Ref: inventory.Ref{Key: inventory.Key{Kind: kind, Namespace: service, Name: fmt.Sprintf("an-object-of-the-service-%d", object)}, Version: "v1"},
			UID: fmt.Sprintf("3f2504e0-4f89-11d3-9a0c-%012x", object),
		},
		Fingerprint: fingerprint.Text(fmt.Append(nil, service, object)),
	}
}
