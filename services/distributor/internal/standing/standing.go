// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package standing reads the problems of the objects that many services depend on: rollout
// policies, fleet sources, image policies, back ends of configurations and notifiers. Their states are
// in the database alone.
//
// It decides nothing about who may see what, and keeps nothing but sums of rollouts that did not change.
package standing

import (
	"context"
	"errors"
	"sync"

	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/fleetgit/fleetsync"
	"github.com/leatdev/leat/services/distributor/internal/fleetgit/imagesync"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/problems"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Rollouts reads the latest rollout of each policy; sqlstore.Rollouts implements it. Errors match
// catalog.ErrUnavailable if the database does not answer.
type Rollouts interface {
	// Heads returns the latest rollout of each policy.
	Heads(ctx context.Context) ([]drive.Head, error)
	// Outline returns a rollout by its id. Errors: drive.ErrNotFound.
	Outline(ctx context.Context, id string) (*drive.Outline, error)
}

// Backends reads the states of back ends; sqlstore.Entries implements it.
type Backends interface {
	// Status returns the state of the reads of back ends, by uid.
	Status(ctx context.Context) (map[string]configs.Status, error)
}

// Params are a Reader's collaborators, all required.
type Params struct {
	Rollouts     Rollouts
	FleetSources fleetsync.States
	Images       imagesync.States
	Backends     Backends
	Mail         notify.Mail
	// TooLarge returns how many services those rollout policies cover, by their uid, that cover too many for a
	// rollout. It is safe for concurrent use.
	TooLarge func() map[string]int
}

// Reader reads problems. It is safe for concurrent use.
type Reader struct {
	p Params

	mu    sync.Mutex
	known map[string]knownRelease // by the uid of the policy
}

// knownRelease sums up one version of a rollout.
type knownRelease struct {
	head    drive.Head
	release problems.Release
}

// New returns a Reader that knows nothing yet.
func New(p Params) *Reader { return &Reader{p: p} }

// reading reads the states of objects of one kind, given by their uids, and returns what finds their problems.
type reading func(r *Reader, ctx context.Context, uids []string) (of func(catalog.Object) []problems.Item, err error)

// readings are the readings of the kinds whose states are read, in this order.
var readings = []struct {
	kind catalog.Kind
	read reading
}{
	{catalog.KindRolloutPolicy, (*Reader).ofPolicies},
	{catalog.KindFleetSource, (*Reader).ofFleetSources},
	{catalog.KindImagePolicy, (*Reader).ofImagePolicies},
	{catalog.KindNotifier, (*Reader).ofNotifiers},
	{catalog.KindConfigBackend, (*Reader).ofBackends},
}

// Kinds are the kinds of objects that a Reader knows about.
func Kinds() []catalog.Kind {
	kinds := make([]catalog.Kind, len(readings))
	for i := range readings {
		kinds[i] = readings[i].kind
	}
	return kinds
}

// Problems returns the problems of objects of its kinds. It asks the database once for each kind
// that is among them. Errors match catalog.ErrUnavailable if the database does not answer.
func (r *Reader) Problems(ctx context.Context, objects []catalog.Object) ([]problems.Item, error) {
	seen := map[catalog.Kind][]catalog.Object{}
	for _, object := range objects {
		seen[object.Key().Kind] = append(seen[object.Key().Kind], object)
	}
	var all []problems.Item
	for _, reading := range readings {
		objects := seen[reading.kind]
		if len(objects) == 0 {
			continue
		}
		of, err := reading.read(r, ctx, uidsOf(objects))
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			all = append(all, of(object)...)
		}
	}
	return all, nil
}

func (r *Reader) ofPolicies(ctx context.Context, _ []string) (func(catalog.Object) []problems.Item, error) {
	latest, err := r.releases(ctx)
	tooLarge := r.p.TooLarge()
	return each(func(p *catalog.RolloutPolicy) []problems.Item {
		return append(problems.OfRollout(p, latest[p.UID]), problems.OfSize(p, tooLarge[p.UID])...)
	}), err
}

func (r *Reader) ofFleetSources(ctx context.Context, uids []string) (func(catalog.Object) []problems.Item, error) {
	states, err := r.p.FleetSources.States(ctx, uids)
	return each(func(s *catalog.FleetSource) []problems.Item {
		return problems.OfFleetSource(s, states[s.UID].Problem, states[s.UID].Held)
	}), err
}

func (r *Reader) ofImagePolicies(ctx context.Context, uids []string) (func(catalog.Object) []problems.Item, error) {
	states, err := r.p.Images.States(ctx, uids)
	return each(func(p *catalog.ImagePolicy) []problems.Item { return problems.OfImagePolicy(p, states[p.UID].Problem) }), err
}

func (r *Reader) ofNotifiers(ctx context.Context, uids []string) (func(catalog.Object) []problems.Item, error) {
	bags, err := r.p.Mail.Mailbags(ctx, uids)
	return each(func(n *catalog.Notifier) []problems.Item {
		bag := bags[n.UID]
		return problems.OfNotifier(n, bag.Dead, bag.Waiting, bag.LastError, bag.LastErrorAt)
	}), err
}

func (r *Reader) ofBackends(ctx context.Context, _ []string) (func(catalog.Object) []problems.Item, error) {
	states, err := r.p.Backends.Status(ctx)
	return each(func(b *catalog.ConfigBackend) []problems.Item {
		state := states[b.UID]
		return problems.OfBackend(b, state.Problem, state.Failing, state.Entries, state.ReadAt)
	}), err
}

// releases returns the latest rollouts by the uid of their policy. It reads each of their versions once.
func (r *Reader) releases(ctx context.Context) (map[string]problems.Release, error) {
	heads, err := r.p.Rollouts.Heads(ctx)
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
			latest, err := r.p.Rollouts.Outline(ctx, head.ID)
			if errors.Is(err, drive.ErrNotFound) {
				continue // the policy was deleted meanwhile
			}
			if err != nil {
				return nil, err
			}
			one = knownRelease{head: head, release: problems.ReleaseOf(latest.Number, &latest.Run)}
		}
		known[head.PolicyUID], all[head.PolicyUID] = one, one.release
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = known
	return all, nil
}

// each makes a function of one kind of objects one of objects.
func each[O catalog.Object](of func(O) []problems.Item) func(catalog.Object) []problems.Item {
	return func(object catalog.Object) []problems.Item {
		o, ok := object.(O)
		if !ok {
			return nil
		}
		return of(o)
	}
}

func uidsOf(objects []catalog.Object) []string {
	uids := make([]string, len(objects))
	for i, object := range objects {
		uids[i] = object.Meta().UID
	}
	return uids
}
