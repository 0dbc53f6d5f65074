// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package compose

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
)

// Settle composes the configurations of services again, decides what they obtain for their
// references, and stores what differs. isChanged means that readers of a service notice it. Error: a
// *fielderr.Error if the services would refer to more paths than they may.
func Settle(ctx context.Context, store Store, now time.Time, uids []string) (isChanged bool, err error) {
	c := New(store, now)
	for chunk := range slices.Chunk(uids, ChunkSize) {
		hasChanged, err := c.settle(ctx, store, chunk)
		if err != nil {
			return false, err
		}
		isChanged = isChanged || hasChanged
	}
	return isChanged, nil
}

func (c *Composer) settle(ctx context.Context, store Store, uids []string) (isChanged bool, err error) {
	all, err := c.Compose(ctx, uids)
	if err != nil {
		return false, err
	}
	if err := c.link(ctx, store, all, uids); err != nil {
		return false, err
	}
	var next Settlement
	for _, s := range all {
		own, err := c.resolve(ctx, s.project(), s.References, s.earlier(s.References))
		if err != nil {
			return false, err
		}
		var held configs.Outcome
		if s.held != nil {
			if held, err = c.resolve(ctx, s.project(), s.held.References, s.earlier(s.held.References)); err != nil {
				return false, err
			}
		}
		next.add(s.Service, s.decide(own, held, c.store.Digest, c.now))
	}
	if next.isEmpty() {
		return false, nil
	}
	return len(next.States) > 0, store.Save(ctx, next)
}

// decide returns a service as it is from now on. own and held hold the values for the references of
// its own configuration, and of the one that it is held at.
func (s *Composition) decide(own, held configs.Outcome, digest func([]byte) string, now time.Time) *Service {
	next := *s.Service
	next.Given, next.HeldGiven = own.Values, held.Values
	next.State = State{
		Held: s.decideHeld(held, digest, now), Problem: own.Problem, Waits: own.Waits || s.Layers.Waits,
	}
	if s.Layers.Problem != nil {
		next.State.Problem = s.Layers.Problem
	}
	next.State.Problem = since(next.State.Problem, s.State.Problem, now)
	whole := WithGiven(s.Literals, own.Values)
	if !whole.Empty() || len(s.Layers.Keys) > 0 || s.Layers.Waits {
		next.State.Digest, next.State.Name = digest(canonical(s.UID, whole)), s.name
	}
	return &next
}

// add adds what differs of a service.
func (n *Settlement) add(last, next *Service) {
	if !reflect.DeepEqual(last.State, next.State) {
		n.States = append(n.States, next)
	}
	if !maps.Equal(last.Given, next.Given) {
		n.Given = append(n.Given, next)
	}
	if !maps.Equal(last.HeldGiven, next.HeldGiven) {
		n.HeldGiven = append(n.HeldGiven, next)
	}
}

// link stores which sets and entries services refer to, and loads the entries.
func (c *Composer) link(ctx context.Context, store Store, all []*Composition, uids []string) error {
	last, err := store.Links(ctx, uids)
	if err != nil {
		return err
	}
	next := Linking{Sets: map[string]map[string]bool{}, Services: map[string][]EntryKey{}}
	entries, projects := map[EntryKey]configs.Place{}, map[string]struct{}{}
	for _, s := range all {
		if !maps.Equal(last[s.UID].Sets, s.Layers.Sets) {
			next.Sets[s.UID] = s.Layers.Sets
		}
		own := map[EntryKey]configs.Place{}
		for _, references := range s.allReferences() {
			some, err := c.entriesOf(ctx, references)
			if err != nil {
				return err
			}
			maps.Copy(own, some)
		}
		maps.Copy(entries, own)
		if keys := sortedEntries(own); !slices.Equal(last[s.UID].Entries, keys) {
			next.Services[s.UID], projects[s.project()] = keys, struct{}{}
		}
	}
	return c.relink(ctx, store, next, projects, sortedEntries(entries))
}

// relink stores links that differ, and loads entries. projects are those whose services or variants
// refer to other entries than before.
func (c *Composer) relink(ctx context.Context, store Store, next Linking, projects map[string]struct{}, entries []EntryKey) error {
	if len(next.Sets)+len(next.Services)+len(next.Variants) == 0 {
		return c.loadEntries(ctx, entries)
	}
	added, err := store.Link(ctx, next)
	if err != nil {
		return err
	}
	if added > 0 {
		n, err := store.Paths(ctx, "")
		if err != nil {
			return err
		}
		if n > MaxEntries {
			return fielderr.New("spec.config.references", "would make more than %d paths of one back end that services refer to", MaxEntries)
		}
	}
	for _, project := range slices.Sorted(maps.Keys(projects)) {
		n, err := store.Paths(ctx, project)
		if err != nil {
			return err
		}
		if n > MaxProjectEntries {
			return fielderr.New("spec.config.references",
				"would make more than %d paths of one back end that services of the project %s refer to", MaxProjectEntries, project)
		}
	}
	return c.loadEntries(ctx, entries)
}
