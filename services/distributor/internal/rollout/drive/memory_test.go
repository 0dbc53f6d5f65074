// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestChangesAreEnough has two leaders live through the same. One is told in each round what has
// changed, and one reads all services. They decide alike.
func TestChangesAreEnough(t *testing.T) {
	t.Parallel()
	states := map[rollout.State]int{}
	for seed := range uint64(40) {
		told, all := newYard(t), newYard(t)
		told.isDiffed = true
		told.lead()
		all.lead()
		for i := range 40 {
			for _, y := range []*yard{told, all} {
				y.happen(rand.New(rand.NewPCG(seed, uint64(i))))
			}
			if got, want := told.decided(), all.decided(); got != want {
				t.Fatalf("seed %d, step %d: the leader that is told of changes decided otherwise:\n%s\nwant\n%s", seed, i, got, want)
			}
			if all.record != nil {
				states[all.record.Run.State]++
			}
		}
	}
	for _, state := range []rollout.State{rollout.Running, rollout.Completed, rollout.RolledBack, rollout.Aborted, rollout.Replaced} {
		if states[state] == 0 {
			t.Errorf("no rollout was ever %s: too little happens to show anything", state)
		}
	}
}

// decided holds a leader's decisions about the latest rollout, and the content of services.
func (y *yard) decided() string {
	y.t.Helper()
	text, err := json.Marshal([]any{y.log.Events, y.log.Decisions})
	if err != nil {
		y.t.Fatal(err)
	}
	all := string(text)
	if y.record != nil {
		all += fmt.Sprintf("\nrollout %d, refused %v", y.record.Number, y.record.Refused)
	}
	for _, uid := range slices.Sorted(maps.Keys(y.admitted)) {
		held := y.admitted[uid]
		all += fmt.Sprintf("\n%s has %s", uid, held.Release().Name())
	}
	return all
}

// happen has something happen to the fleet or the rollout, and some rounds after it.
func (y *yard) happen(r *rand.Rand) {
	y.t.Helper()
	one := r.IntN(len(y.services))
	change := func(of func(*catalog.ServiceSpec)) {
		next := *y.services[one]
		of(&next.Spec)
		y.services[one] = &next
	}
	switch r.IntN(14) {
	case 0, 1:
		y.contents[app] = content(app, fmt.Sprint("c", r.IntN(9)))
	case 2:
		y.edit(namespace(fmt.Sprint("n", r.IntN(4))))
	case 3:
		change(namespace(fmt.Sprint("n", r.IntN(4))))
	case 4:
		y.add(fmt.Sprint("late", y.now.Unix()), "")
	case 5:
		if len(y.services) > 2 {
			delete(y.reports, y.services[one].UID)
			y.services = slices.Delete(y.services, one, one+1)
		}
	case 6:
		uid := y.services[one].UID
		if a, ok := y.admitted[uid]; ok {
			if a.Pin = nil; r.IntN(2) == 0 {
				a.Pin = &catalog.Pin{Content: a.Content}
			}
			y.admitted[uid] = a
		}
	case 7:
		y.bad = fmt.Sprint("n", r.IntN(4))
	case 8:
		change(func(s *catalog.ServiceSpec) {
			options := s.Wanted()
			options.Paused = !options.Paused
			s.Options = &options
		})
	case 9:
		y.lead()
	case 10:
		y.policy.Spec.Strategy.Replaces = !y.policy.Spec.Strategy.Replaces
	default:
		y.steer(r)
	}
	y.rounds(1 + r.IntN(4))
}

// steer has a person steer the rollout, if that is possible now.
func (y *yard) steer(r *rand.Rand) {
	y.t.Helper()
	if y.record == nil {
		return
	}
	verbs := []rollout.Verb{rollout.Pause, rollout.Resume, rollout.Abort, rollout.Retry, rollout.SkipWave, rollout.Rollback}
	e := rollout.Event{Kind: rollout.Command, Verb: verbs[r.IntN(len(verbs))], At: y.now, Person: "ada"}
	if r.IntN(2) == 0 {
		e = rollout.Event{Kind: rollout.Approve, Wave: y.record.Run.Current(), At: y.now, Person: fmt.Sprint("p", y.record.Run.Seq)}
	}
	step, err := y.record.Follow(e)
	if err != nil {
		return
	}
	if err := y.Save(y.t.Context(), 1, step); err != nil {
		y.t.Fatal(err)
	}
}
