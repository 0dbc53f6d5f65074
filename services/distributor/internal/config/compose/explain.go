// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package compose

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/config/layers"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Explain returns where the values of a configuration come from, sorted by key.
func (c *Composer) Explain(ctx context.Context, s *Composition) ([]configs.Explained, error) {
	places, err := c.entriesOf(ctx, s.References)
	if err != nil {
		return nil, err
	}
	if err := c.loadEntries(ctx, sortedEntries(places)); err != nil {
		return nil, err
	}
	var all []configs.Explained
	for _, name := range slices.Sorted(maps.Keys(s.Layers.Keys)) {
		all = append(all, c.explainKey(name, s))
	}
	markSame(all, WithGiven(s.Literals, s.Given))
	return all, nil
}

// explainKey explains one key without its value.
func (c *Composer) explainKey(name string, s *Composition) configs.Explained {
	key := s.Layers.Keys[name]
	x := configs.Explained{Key: name, Layer: key.Origin, Through: key.Through, IsSecret: key.Final.Form == layers.Secret}
	if key.Form == layers.Reference {
		x.Reference = key.Text.Reveal()
	}
	for _, item := range key.Shadows {
		shadow := configs.Shadow{Layer: item.Origin, IsSecret: item.Form == layers.Secret}
		if item.Form == layers.Reference {
			shadow.Reference = item.Text.Reveal()
		}
		x.Shadows = append(x.Shadows, shadow)
	}
	switch {
	case key.Err != nil:
		x.Problem = &catalog.Problem{Reason: reason.ConfigReferenceInvalid, Message: key.Err.Error()}
		if _, isMissing := errors.AsType[*layers.MissingError](key.Err); isMissing {
			x.Problem.Reason = reason.ConfigMissing
		}
	case key.IsAbsent:
	case key.Final.Form == layers.Reference:
		c.explainReference(&x, key.Final.Text.Reveal(), s.Given)
	default:
		x.IsGiven, x.IsLatest = true, true
	}
	return x
}

// explainReference adds the state of a reference to a back end.
func (c *Composer) explainReference(x *configs.Explained, text string, given map[string]configs.Value) {
	if text != x.Reference {
		x.Resolved = text
	}
	had, isGiven := given[x.Key]
	x.IsSecret, x.IsGiven = true, isGiven && had.Reference == text
	reference, err := catalog.ParseReference(text)
	if err != nil {
		x.Problem = &catalog.Problem{Reason: reason.ConfigMissing, Message: err.Error()}
		return
	}
	if reference.IsInCluster() { // the hub never learns what the agent reads
		x.IsGiven, x.IsLatest = true, true
		return
	}
	backend := c.backends[reference.Backend]
	if backend == nil {
		x.Problem = &catalog.Problem{Reason: reason.ConfigMissing, Message: "there is no such back end"}
		return
	}
	x.IsSecret = !backend.Spec.Public
	state := c.entries[EntryKey{backend.UID, reference.Path}]
	x.Version, x.ReadAt, x.NextAt = state.Version, state.ReadAt, state.DueAt
	value, ok := state.Value(reference.Key)
	x.IsLatest = x.IsGiven && ok && state.Failure == "" && value == had.Text
	switch {
	case state.Failure != "":
		x.Problem = &catalog.Problem{Reason: reason.ConfigStale, Message: state.Failure}
		if state.IsRefused {
			x.Problem.Reason = reason.ConfigMissing
		}
	case state.Last != nil && !ok:
		x.Problem = &catalog.Problem{Reason: reason.ConfigMissing, Message: "the entry has no such key"}
	}
}

// markSame notes which keys of one service have the same secret. It compares the secrets of no two
// services.
func markSame(all []configs.Explained, config *catalog.Config) {
	keys := map[secret.Text][]string{}
	for _, key := range slices.Sorted(maps.Keys(config.Secrets)) {
		keys[config.Secrets[key]] = append(keys[config.Secrets[key]], key)
	}
	for i := range all {
		text, isSecret := config.Secrets[all[i].Key]
		if !isSecret {
			continue
		}
		for _, key := range keys[text] {
			if key != all[i].Key {
				all[i].SameAs = append(all[i].SameAs, key)
			}
		}
	}
}
