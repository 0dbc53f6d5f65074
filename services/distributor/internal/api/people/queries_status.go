// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/fleetsync"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/problems"
	"github.com/leatdev/leat/services/distributor/internal/rollouts"
)

// LatestRollouts reads the latest rollout of each policy; sqlstore.Rollouts implements it. Errors match
// catalog.ErrUnavailable if the database does not answer.
type LatestRollouts interface {
	// Heads returns the latest rollout of each policy.
	Heads(ctx context.Context) ([]rollouts.Head, error)
	// Record returns a rollout by its id. Errors: rollouts.ErrNotFound.
	Record(ctx context.Context, id string) (*rollouts.Record, error)
}

// QueriesDeps are what [Queries] asks about beside the view. All are required.
type QueriesDeps struct {
	Rollouts     LatestRollouts
	FleetSources fleetsync.States
	Mail         notify.Mail
}

// releases sums up the latest rollouts, and reads each of their versions once. It is safe for concurrent
// use.
type releases struct {
	from LatestRollouts

	mu    sync.Mutex
	known map[string]knownRelease // by the uid of the policy
}

type knownRelease struct {
	head    rollouts.Head
	release problems.Release
}

// all returns the latest rollouts by the uid of their policy.
func (r *releases) all(ctx context.Context) (map[string]problems.Release, error) {
	heads, err := r.from.Heads(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	last := r.known
	r.mu.Unlock()
	known, all := make(map[string]knownRelease, len(heads)), make(map[string]problems.Release, len(heads))
	for _, head := range heads {
		one, ok := last[head.PolicyUID]
		if !ok || one.head != head {
			record, err := r.from.Record(ctx, head.ID)
			if errors.Is(err, rollouts.ErrNotFound) {
				continue // the policy was deleted meanwhile
			}
			if err != nil {
				return nil, err
			}
			one = knownRelease{head: head, release: problems.ReleaseOf(record.Number, &record.Run)}
		}
		known[head.PolicyUID], all[head.PolicyUID] = one, one.release
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = known
	return all, nil
}

// others adds the problems of what many services follow from, as far as the caller may see it. If the
// database does not answer, the status says so, because most of these states are there alone.
func (w *statusWalk) others(ctx context.Context) error {
	if _, err := w.kind(ctx, catalog.KindGlobalService); err != nil {
		return err
	}
	seen := map[catalog.Kind][]catalog.Object{}
	for _, kind := range []catalog.Kind{catalog.KindRolloutPolicy, catalog.KindFleetSource, catalog.KindNotifier, catalog.KindConfigBackend} {
		if w.project != "" && !kind.InProject() {
			continue
		}
		objects, err := w.objects(ctx, kind)
		if err != nil {
			return err
		}
		seen[kind] = objects
	}
	err := w.addOthers(ctx, seen)
	if !errors.Is(err, catalog.ErrUnavailable) {
		return err
	}
	w.queries.people.d.Logger.WarnContext(ctx, "status is shown without rollouts, fleet sources, back ends and notifiers", slog.Any("error", err))
	w.grouper.Add(problems.Item{
		Severity: problems.Warning, Kind: kindHub, Path: "database", Reason: reason.DependencyUnavailable,
		Message: "the database does not answer, so states of rollouts, fleet sources, back ends and notifiers are not known",
	}, 0)
	return nil
}

// kindHub is the kind of problems of the hub itself. There is no such object.
const kindHub catalog.Kind = "Hub"

func (w *statusWalk) addOthers(ctx context.Context, seen map[catalog.Kind][]catalog.Object) error {
	q := w.queries
	if policies := seen[catalog.KindRolloutPolicy]; len(policies) > 0 {
		latest, err := q.releases.all(ctx)
		if err != nil {
			return err
		}
		each(w, policies, func(p *catalog.RolloutPolicy) []problems.Item { return problems.OfRollout(p, latest[p.UID]) })
	}
	if sources := seen[catalog.KindFleetSource]; len(sources) > 0 {
		states, err := q.d.FleetSources.States(ctx, uidsOf(sources))
		if err != nil {
			return err
		}
		each(w, sources, func(s *catalog.FleetSource) []problems.Item {
			return problems.OfFleetSource(s, states[s.UID].Problem, states[s.UID].Held)
		})
	}
	if notifiers := seen[catalog.KindNotifier]; len(notifiers) > 0 {
		bags, err := q.d.Mail.Mailbags(ctx, uidsOf(notifiers))
		if err != nil {
			return err
		}
		each(w, notifiers, func(n *catalog.Notifier) []problems.Item {
			bag := bags[n.UID]
			return problems.OfNotifier(n, bag.Dead, bag.Waiting, bag.LastError, bag.LastErrorAt)
		})
	}
	if backends := seen[catalog.KindConfigBackend]; len(backends) > 0 {
		states, err := q.people.d.Configs.Status(ctx)
		if err != nil {
			return err
		}
		each(w, backends, func(b *catalog.ConfigBackend) []problems.Item {
			state := states[b.UID]
			return problems.OfBackend(b, state.Problem, state.Failing, state.Entries, state.ReadAt)
		})
	}
	return nil
}

// objects returns the objects of a kind that the caller may see.
func (w *statusWalk) objects(ctx context.Context, kind catalog.Kind) ([]catalog.Object, error) {
	q, err := find.NewQuery(find.Params{Kind: kind, Project: w.project})
	if err != nil {
		return nil, wire.Error(err)
	}
	var objects []catalog.Object
	err = q.Select(ctx, w.queries.index.Snapshot(kind), w.caller.viewer(q), time.Now(), func(row *find.Row) bool {
		objects = append(objects, row.Object)
		return true
	})
	return objects, queryError(err)
}

// each adds the problems of objects of one kind.
func each[O catalog.Object](w *statusWalk, objects []catalog.Object, of func(O) []problems.Item) {
	for _, object := range objects {
		if o, ok := object.(O); ok {
			for _, item := range of(o) {
				w.grouper.Add(item, 0)
			}
		}
	}
}

func uidsOf(objects []catalog.Object) []string {
	uids := make([]string, len(objects))
	for i, object := range objects {
		uids[i] = object.Meta().UID
	}
	return uids
}
