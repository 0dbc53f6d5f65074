// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package composetest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/config/compose"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// ErrFailed is the error of a call that FailCall names.
var ErrFailed = errors.New("the store fails")

// Memory is a hub in memory. An edit of objects settles all services and variants, and an answer of a
// back end the ones that refer to it. It is for one goroutine.
type Memory struct {
	state      state
	at         time.Time // of the last change
	isNumbered bool      // the present edit is a change of the catalog
	calls      int       // of the present edit
	failing    int       // the call that fails; 0: none
}

var (
	_ Hub                  = (*Memory)(nil)
	_ compose.VariantStore = (*Memory)(nil)
)

// state is the part that an edit that fails leaves as it was. Values of the maps are never changed in place.
type state struct {
	revision int64
	objects  map[catalog.Key]catalog.Object
	decided  map[string]*compose.Service // by uid
	sets     map[string]map[string]bool
	links    map[string][]compose.EntryKey // of services and variants
	entries  map[compose.EntryKey]compose.Entry
	variants map[string]*storedVariant
	held     map[string]*compose.Held
	holds    map[string]string // names of configurations by the uid of a service
}

type storedVariant struct {
	compose.Variant

	revision int64
}

// NewMemory returns an empty hub.
func NewMemory() *Memory {
	return &Memory{at: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC), state: state{
		objects: map[catalog.Key]catalog.Object{}, decided: map[string]*compose.Service{}, sets: map[string]map[string]bool{},
		links: map[string][]compose.EntryKey{}, entries: map[compose.EntryKey]compose.Entry{}, variants: map[string]*storedVariant{},
		held: map[string]*compose.Held{}, holds: map[string]string{},
	}}
}

func (s state) clone() state {
	s.objects, s.decided, s.sets, s.links = maps.Clone(s.objects), maps.Clone(s.decided), maps.Clone(s.sets), maps.Clone(s.links)
	s.entries, s.variants, s.held, s.holds = maps.Clone(s.entries), maps.Clone(s.variants), maps.Clone(s.held), maps.Clone(s.holds)
	return s
}

// Now returns the time of the last edit.
func (m *Memory) Now() time.Time { return m.at }

// FailCall has the n-th call of the next edit fail.
func (m *Memory) FailCall(n int) { m.failing = n }

func (m *Memory) call() error {
	if m.calls++; m.calls == m.failing {
		return ErrFailed
	}
	return nil
}

// Edit calls fn as one transaction, a second after the last one.
func (m *Memory) Edit(fn func() error) error {
	before := m.state.clone()
	m.at, m.isNumbered, m.calls = m.at.Add(time.Second), false, 0
	err := fn()
	if m.failing = 0; err != nil {
		m.state = before
	}
	return err
}

// number makes the edit a change of the catalog.
func (m *Memory) number() {
	if !m.isNumbered {
		m.state.revision, m.isNumbered = m.state.revision+1, true
	}
}

// settle settles services and variants, by uid or id, of which that is true.
func (m *Memory) settle(ctx context.Context, isAffected func(id string) bool) (isChanged bool, err error) {
	var uids, ids []string
	for _, object := range m.state.objects {
		if service, ok := object.(*catalog.Service); ok && isAffected(service.UID) {
			uids = append(uids, service.UID)
		}
	}
	for id := range m.state.variants {
		if isAffected(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(uids)
	slices.Sort(ids)
	isChanged, err = compose.Settle(ctx, m, m.at, uids)
	if err != nil {
		return false, err
	}
	hasChanged, err := compose.SettleVariants(ctx, m, m.at, ids)
	return isChanged || hasChanged, err
}

func everything(string) bool { return true }

// Apply is Put with its error.
func (m *Memory) Apply(ctx context.Context, objects ...catalog.Object) error {
	return m.Edit(func() error {
		m.number()
		for _, object := range objects {
			object.Meta().UID = string(object.Key().Kind) + "-" + object.Key().Name
			m.state.objects[object.Key()] = object
		}
		_, err := m.settle(ctx, everything)
		return err
	})
}

// Put implements Hub.
func (m *Memory) Put(t *testing.T, objects ...catalog.Object) []catalog.Object {
	t.Helper()
	if err := m.Apply(t.Context(), objects...); err != nil {
		t.Fatal(err)
	}
	return objects
}

// Answer implements Hub.
func (m *Memory) Answer(t *testing.T, backend, path string, entry configs.Entry) bool {
	t.Helper()
	return m.change(t, backend, path, func(e *compose.Entry) {
		e.State, e.Version = configs.State{Last: &entry, ReadAt: m.at}, entry.Version
	})
}

// Fail implements Hub.
func (m *Memory) Fail(t *testing.T, backend, path string, failed configs.Failed) bool {
	t.Helper()
	return m.change(t, backend, path, func(e *compose.Entry) {
		e.IsOverdue = failed.IsOverdue
		if failed.IsRefused || !e.IsRefused {
			e.Failure, e.IsRefused, e.IsAbsent = failed.Message, failed.IsRefused, failed.IsAbsent
		}
	})
}

func (m *Memory) change(t *testing.T, backend, path string, change func(*compose.Entry)) (isChanged bool) {
	t.Helper()
	err := m.Edit(func() error {
		key := compose.EntryKey{BackendUID: m.state.objects[catalog.Key{Kind: catalog.KindConfigBackend, Name: backend}].Meta().UID, Path: path}
		entry, isKnown := m.state.entries[key]
		if !isKnown {
			return nil
		}
		change(&entry)
		m.state.entries[key] = entry
		var err error
		isChanged, err = m.settle(t.Context(), func(id string) bool { return slices.Contains(m.state.links[id], key) })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return isChanged
}

// Hold implements Hub.
func (m *Memory) Hold(t *testing.T, service string) {
	t.Helper()
	m.editHolds(t, func(uid string) error {
		all, err := compose.New(m, m.at).Compose(t.Context(), []string{uid})
		if err != nil {
			return err
		}
		staged := all[0].Staged()
		m.HoldAt(uid, staged)
		return nil
	}, service)
}

// HoldAt holds a service at a configuration. Without the configuration the name alone is stored.
func (m *Memory) HoldAt(uid string, staged *compose.Held) {
	m.state.holds[uid] = staged.Name
	if staged.Literals != nil && staged.Name != catalog.NoConfig {
		m.state.held[staged.Name] = staged
	}
}

// Release implements Hub.
func (m *Memory) Release(t *testing.T, service string) {
	t.Helper()
	m.editHolds(t, func(uid string) error {
		delete(m.state.holds, uid)
		return nil
	}, service)
}

func (m *Memory) editHolds(t *testing.T, edit func(uid string) error, service string) {
	t.Helper()
	err := m.Edit(func() error {
		m.number()
		if err := edit(m.service(service).UID); err != nil {
			return err
		}
		_, err := m.settle(t.Context(), everything)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Keep implements Hub.
func (m *Memory) Keep(ctx context.Context, variants []catalog.ConfigVariant) (map[string]*catalog.Problem, error) {
	return compose.Keep(ctx, variants, func(ctx context.Context, some []catalog.ConfigVariant) error {
		return m.Edit(func() error { return compose.AddVariants(ctx, m, m.at, some) })
	})
}

// Variant implements Hub.
func (m *Memory) Variant(t *testing.T, id string) catalog.VariantState {
	t.Helper()
	v := m.state.variants[id]
	if v == nil {
		t.Fatalf("there is no variant %s", id)
	}
	return catalog.VariantState{ID: v.ID, GlobalUID: v.GlobalUID, Digest: v.Digest, Waits: v.Waits, Problem: v.Problem}
}

func (m *Memory) service(name string) *catalog.Service {
	service, _ := m.state.objects[catalog.Key{Kind: catalog.KindService, Name: name}].(*catalog.Service)
	return service
}

// Service implements Hub.
func (m *Memory) Service(t *testing.T, name string) *catalog.Service {
	t.Helper()
	service := *m.service(name)
	state := compose.State{}
	if decided := m.state.decided[service.UID]; decided != nil {
		state = decided.State
	}
	service.ConfigDigest, service.ConfigName, service.HeldConfig = state.Digest, state.Name, state.Held
	service.ConfigProblem, service.ConfigWaits = state.Problem, state.Waits
	if state.Digest == "" {
		service.ConfigName = catalog.NoConfig
	}
	return &service
}

// Config implements Hub.
func (m *Memory) Config(t *testing.T, name string) (catalog.Config, string) {
	t.Helper()
	config, digest, err := m.compose(t, compose.New(m, m.at), name).Planned()
	if err != nil {
		t.Fatal(err)
	}
	return config, digest
}

func (m *Memory) compose(t *testing.T, c *compose.Composer, name string) *compose.Composition {
	t.Helper()
	all, err := c.Compose(t.Context(), []string{m.service(name).UID})
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// Explain implements Hub.
func (m *Memory) Explain(t *testing.T, name string) map[string]configs.Explained {
	t.Helper()
	c := compose.New(m, m.at)
	explained, err := c.Explain(t.Context(), m.compose(t, c, name))
	if err != nil {
		t.Fatal(err)
	}
	return byKey(explained)
}

// Revision implements Hub.
func (m *Memory) Revision(*testing.T) int64 { return m.state.revision }

// Services implements compose.Reader.
func (m *Memory) Services(_ context.Context, uids []string) ([]*compose.Service, error) {
	var all []*compose.Service
	for _, object := range m.state.objects {
		service, ok := object.(*catalog.Service)
		if !ok || !slices.Contains(uids, service.UID) {
			continue
		}
		next := compose.Service{}
		if last := m.state.decided[service.UID]; last != nil {
			next = *last
		}
		next.UID, next.Name, next.Sets, next.Own = service.UID, service.Name, service.Spec.ConfigSets, service.Spec.Config
		next.Cluster, _ = m.state.objects[catalog.Key{Kind: catalog.KindCluster, Name: service.Spec.Cluster}].(*catalog.Cluster)
		next.HeldName = m.state.holds[service.UID]
		all = append(all, &next)
	}
	return all, m.call()
}

// Project implements compose.Reader.
func (m *Memory) Project(_ context.Context, name string) (*catalog.Project, error) {
	project, ok := m.state.objects[catalog.Key{Kind: catalog.KindProject, Name: name}].(*catalog.Project)
	switch {
	case ok:
		return project, m.call()
	case name == objectname.Default:
		return catalog.DefaultProject(), m.call()
	}
	return nil, fmt.Errorf("there is no project %s", name)
}

// Set implements compose.Reader.
func (m *Memory) Set(_ context.Context, path string) (*catalog.ConfigSet, error) {
	set, _ := m.state.objects[catalog.Key{Kind: catalog.KindConfigSet, Name: path}].(*catalog.ConfigSet)
	return set, m.call()
}

// Backends implements compose.Reader.
func (m *Memory) Backends(context.Context) (all []*catalog.ConfigBackend, err error) {
	for _, object := range m.state.objects {
		if backend, ok := object.(*catalog.ConfigBackend); ok {
			all = append(all, backend)
		}
	}
	return all, m.call()
}

// Entries implements compose.Reader.
func (m *Memory) Entries(_ context.Context, keys []compose.EntryKey) (map[compose.EntryKey]compose.Entry, error) {
	found := map[compose.EntryKey]compose.Entry{}
	for _, key := range keys {
		if entry, ok := m.state.entries[key]; ok {
			found[key] = entry
		}
	}
	return found, m.call()
}

// Held implements compose.Reader.
func (m *Memory) Held(_ context.Context, names []string) (map[string]*compose.Held, error) {
	found := map[string]*compose.Held{}
	for _, name := range names {
		if held, ok := m.state.held[name]; ok {
			found[name] = held
		}
	}
	return found, m.call()
}

// Digest implements compose.Reader.
func (m *Memory) Digest(content []byte) string {
	sum := sha256.Sum256(append([]byte("key"), content...))
	return hex.EncodeToString(sum[:])
}

// Links implements compose.Store.
func (m *Memory) Links(_ context.Context, uids []string) (map[string]compose.Links, error) {
	links := map[string]compose.Links{}
	for _, uid := range uids {
		links[uid] = compose.Links{Sets: m.state.sets[uid], Entries: m.state.links[uid]}
	}
	return links, m.call()
}

// Variants implements compose.Store.
func (m *Memory) Variants(_ context.Context, ids []string) ([]*compose.Variant, error) {
	var all []*compose.Variant
	for _, id := range ids {
		if stored := m.state.variants[id]; stored != nil {
			variant := stored.Variant
			variant.Entries = m.state.links[id]
			all = append(all, &variant)
		}
	}
	return all, m.call()
}

// Paths implements compose.Store.
func (m *Memory) Paths(_ context.Context, project string) (most int, err error) {
	used := map[compose.EntryKey]struct{}{}
	if project == "" {
		for key := range m.state.entries {
			used[key] = struct{}{}
		}
	}
	for _, object := range m.state.objects {
		if service, ok := object.(*catalog.Service); ok && objectname.Project(service.Name) == project {
			for _, key := range m.state.links[service.UID] {
				used[key] = struct{}{}
			}
		}
	}
	for id, variant := range m.state.variants {
		if variant.Project == project {
			for _, key := range m.state.links[id] {
				used[key] = struct{}{}
			}
		}
	}
	paths := map[string]int{}
	for key := range used {
		paths[key.BackendUID]++
		most = max(most, paths[key.BackendUID])
	}
	return most, m.call()
}

// Link implements compose.Store.
func (m *Memory) Link(_ context.Context, changed compose.Linking) (added int, err error) {
	m.number()
	maps.Copy(m.state.sets, changed.Sets)
	for _, owners := range []map[string][]compose.EntryKey{changed.Services, changed.Variants} {
		for owner, keys := range owners {
			m.state.links[owner] = keys
			for _, key := range keys {
				if _, isKnown := m.state.entries[key]; !isKnown {
					m.state.entries[key] = compose.Entry{DueAt: m.at}
					added++
				}
			}
		}
	}
	return added, m.call()
}

// Save implements compose.Store.
func (m *Memory) Save(_ context.Context, next compose.Settlement) error {
	m.number()
	// change writes one part of some services.
	change := func(services []*compose.Service, set func(stored, next *compose.Service)) {
		for _, service := range services {
			stored := compose.Service{}
			if last := m.state.decided[service.UID]; last != nil {
				stored = *last
			}
			set(&stored, service)
			m.state.decided[service.UID] = &stored
		}
	}
	change(next.States, func(stored, next *compose.Service) { stored.State = next.State })
	change(next.Given, func(stored, next *compose.Service) { stored.Given = next.Given })
	change(next.HeldGiven, func(stored, next *compose.Service) { stored.HeldGiven = next.HeldGiven })
	m.state.putVariants(next.Variants)
	return m.call()
}

func (s *state) putVariants(variants []*compose.Variant) {
	for _, variant := range variants {
		s.variants[variant.ID] = &storedVariant{*variant, s.revision}
	}
}

// Missing implements compose.VariantStore.
func (m *Memory) Missing(_ context.Context, wanted []catalog.ConfigVariant) (missing []catalog.ConfigVariant, err error) {
	for _, variant := range wanted {
		if m.state.variants[variant.ID] == nil && m.global(variant.GlobalUID) != nil {
			missing = append(missing, variant)
		}
	}
	return missing, m.call()
}

func (m *Memory) global(uid string) *catalog.GlobalService {
	for _, object := range m.state.objects {
		if global, ok := object.(*catalog.GlobalService); ok && global.UID == uid {
			return global
		}
	}
	return nil
}

// Given implements compose.VariantStore.
func (m *Memory) Given(_ context.Context, globalUID string, limit int) ([]map[string]configs.Value, error) {
	var found []*storedVariant
	for _, variant := range m.state.variants {
		if variant.GlobalUID == globalUID {
			found = append(found, variant)
		}
	}
	slices.SortFunc(found, func(a, b *storedVariant) int {
		return cmp.Or(cmp.Compare(b.revision, a.revision), cmp.Compare(a.ID, b.ID))
	})
	var all []map[string]configs.Value
	for _, variant := range found[:min(len(found), limit)] {
		all = append(all, variant.Given)
	}
	return all, m.call()
}

// Add implements compose.VariantStore.
func (m *Memory) Add(_ context.Context, variants []*compose.Variant) error {
	m.number()
	m.state.putVariants(variants)
	return m.call()
}

// Numbers implements compose.VariantStore.
func (m *Memory) Numbers(context.Context) (map[string]int, error) {
	numbers := map[string]int{}
	for _, variant := range m.state.variants {
		numbers[m.global(variant.GlobalUID).Name]++
	}
	return numbers, m.call()
}

func byKey(explained []configs.Explained) map[string]configs.Explained {
	keys := make(map[string]configs.Explained, len(explained))
	for _, x := range explained {
		keys[x.Key] = x
	}
	return keys
}
