// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/secret"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/config/layers"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Explain returns where the values of a service's configuration come from, by key. A service that
// does not exist has none.
func (e *Entries) Explain(ctx context.Context, serviceUID string) (all []configs.Explained, err error) {
	err = e.store.opening(ctx, func(ctx context.Context) error {
		return e.store.read(ctx, "explain configuration", func(ctx context.Context, tx bun.Tx) error {
			c := newComposer(newTx(e.store, tx))
			found, err := c.compose(ctx, []string{serviceUID})
			if err != nil || len(found) == 0 {
				return err
			}
			all, err = explain(ctx, c, found[0])
			return err
		})
	})
	return all, err
}

func explain(ctx context.Context, c *composer, s *composition) ([]configs.Explained, error) {
	places, err := c.placesOf(ctx, s.references)
	if err != nil {
		return nil, err
	}
	if err := c.loadEntries(ctx, slices.Sorted(maps.Keys(places))); err != nil {
		return nil, err
	}
	var all []configs.Explained
	for _, name := range slices.Sorted(maps.Keys(s.Keys)) {
		all = append(all, c.explainKey(name, s))
	}
	markSame(all, withGiven(s.literals, s.given))
	return all, nil
}

// Shown returns what anybody may see of the configuration that a service is planned with: values, the keys of
// secrets, and references to back ends, of all layers together. A service without a configuration has none.
func (e *Entries) Shown(ctx context.Context, serviceUID string) (config *catalog.Config, err error) {
	err = e.store.opening(ctx, func(ctx context.Context) error {
		return e.store.read(ctx, "read configuration", func(ctx context.Context, tx bun.Tx) error {
			config = nil
			found, err := newComposer(newTx(e.store, tx)).compose(ctx, []string{serviceUID})
			if err != nil || len(found) == 0 {
				return err
			}
			switch s := found[0]; {
			case s.heldName == "":
				config = shown(s.literals, s.references)
			case s.held != nil:
				config = shown(s.held.literals, s.held.References)
			}
			return nil
		})
	})
	return config, err
}

// shown hides the secrets of literals, which it changes.
func shown(literals *catalog.Config, references map[string]string) *catalog.Config {
	for key := range literals.Secrets {
		literals.Secrets[key] = ""
	}
	literals.References = references
	return literals
}

// explainKey explains one key without its value.
func (c *composer) explainKey(name string, s *composition) configs.Explained {
	key := s.Keys[name]
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
		c.explainReference(&x, key.Final.Text.Reveal(), s.given)
	default:
		x.IsGiven, x.IsLatest = true, true
	}
	return x
}

// explainReference adds the state of a reference to a back end.
func (c *composer) explainReference(x *configs.Explained, text string, given map[string]configs.Value) {
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
	known := c.entries[entryID(backend.UID, reference.Path)]
	if row := known.row; row != nil {
		x.Version, x.ReadAt, x.NextAt = row.Version, timeOf(row.ReadAt), timeOf(row.DueAt)
	}
	state := known.state
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

// Status returns the state of the reads of all back ends that services refer to, by uid.
func (e *Entries) Status(ctx context.Context) (map[string]configs.Status, error) {
	var rows []*entryRow
	err := e.store.db.NewSelect().Model(&rows).ExcludeColumn("sealed").
		Where(isReferredTo("ce")).Order("tried_at", "id").Scan(ctx)
	if err != nil {
		return nil, translate("read states of configuration back ends", err)
	}
	all := map[string]configs.Status{}
	for _, row := range rows {
		s := all[row.BackendUID]
		s.Entries++
		if at := timeOf(row.ReadAt); at.After(s.ReadAt) {
			s.ReadAt = at
		}
		if f := row.Failure.v; f.Message != "" {
			s.Failing++
			since := timeOf(f.Since)
			if s.Problem != nil && (since.IsZero() || !s.Problem.Since.IsZero() && s.Problem.Since.Before(since)) {
				since = s.Problem.Since
			}
			s.Problem = &catalog.Problem{Reason: reason.ConfigStale, Message: row.Path + ": " + f.Message, Since: since}
			if f.IsRefused {
				s.Problem.Reason = reason.ConfigMissing
			}
		}
		all[row.BackendUID] = s
	}
	return all, nil
}

// Config implements catalog.Configs.
func (s *Store) Config(ctx context.Context, serviceUID string) (config catalog.Config, digest string, err error) {
	err = s.opening(ctx, func(ctx context.Context) error {
		return s.read(ctx, "read configuration", func(ctx context.Context, sqlTx bun.Tx) error {
			config, digest, err = readConfig(ctx, newTx(s, sqlTx), serviceUID)
			return err
		})
	})
	return config, digest, err
}

// readConfig composes the configuration that a service is planned with. The transaction sees one state, in
// which digest, values and secrets belong together.
func readConfig(ctx context.Context, t *tx, serviceUID string) (catalog.Config, string, error) {
	all, err := newComposer(t).compose(ctx, []string{serviceUID})
	if err != nil || len(all) == 0 {
		return catalog.Config{}, "", err
	}
	return all[0].planned()
}
