// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/amount"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// lookAgain spaces the looks meanwhile. One at a global service reads all its members, so there are few.
var lookAgain = backoff.Policy{Initial: 100 * time.Millisecond, Max: time.Second}

// editRollout is the rollout that brings an edit.
type editRollout struct {
	policy *catalog.RolloutPolicy
	of     *drive.Outline
}

// editRollouts are by the key of the edited object.
type editRollouts map[catalog.Key]*editRollout

// says names the rollout, and how many members have the edit.
func (r *editRollout) says() string {
	name, m := objectname.Display(r.policy.Name), r.message()
	return fmt.Sprintf("rollout %d of rolloutpolicy %s brings it, and %d of %s %s it; leat rollout status %s shows each",
		m.GetNumber(), name, m.GetArrived(), amount.Of(m.GetTotal(), "service"), amount.Have(m.GetTotal()), name)
}

func (r *editRollout) message() *fleetv1.EditRollout {
	m := codec.RolloutMessage(r.policy, r.of)
	return &fleetv1.EditRollout{Policy: m.GetPolicy(), Number: m.GetNumber(), Total: m.GetTotal(), Arrived: m.GetArrived()}
}

// addTo puts the rollout into the status of an object.
func (r *editRollout) addTo(object proto.Message) {
	switch o := object.(type) {
	case *fleetv1.Service:
		o.Status.Rollout = r.message()
	case *fleetv1.GlobalService:
		o.Status.Rollout = r.message()
	}
}

// awaitRollouts returns the rollouts that bring edits of services and global services. It waits for
// rollouts to begin, and leaves out the ones that do not begin in time. The edits are stored, so an
// error is logged.
func (s *Service) awaitRollouts(ctx context.Context, outcomes []catalog.Outcome) editRollouts {
	open, found := map[catalog.Key]catalog.Object{}, editRollouts{}
	for _, outcome := range outcomes {
		if outcome.Action != catalog.ActionUnchanged {
			open[outcome.Object.Key()] = outcome.Object
		}
	}
	waiting := map[catalog.Key]bool{} // edits that have waited for a rollout
	deadline := time.Now().Add(s.d.Settings.RolloutWait)
	for attempt := 0; ; attempt++ {
		if err := s.findRollouts(ctx, open, waiting, found); err != nil {
			s.d.Logger.WarnContext(ctx, "edit stored, but its rollout is not known", slog.Any("error", err))
			return found
		}
		if len(open) == 0 || !time.Now().Before(deadline) || backoff.Wait(ctx, lookAgain.Delay(attempt)) != nil {
			return found
		}
	}
}

// findRollouts moves edits whose rollouts have begun from open to found, and drops the ones that
// need none.
func (s *Service) findRollouts(ctx context.Context, open map[catalog.Key]catalog.Object, waiting map[catalog.Key]bool, found editRollouts) error {
	edits, policies, services := map[catalog.Key]fleet.Edited{}, map[string]*catalog.RolloutPolicy{}, map[string][]string{}
	for key, object := range open {
		edit := fleet.Rollouts{View: s.d.View}.Edited(object)
		if waiting[key] = waiting[key] || edit.Waits; edit.Policy == nil {
			if !edit.IsBehind {
				delete(open, key)
			}
			continue
		}
		edits[key], policies[edit.Policy.UID] = edit, edit.Policy
		services[edit.Policy.UID] = append(services[edit.Policy.UID], edit.Service.UID)
	}
	for uid, policy := range policies {
		latest, releases, err := s.d.States.Releases.Brings(ctx, uid, services[uid])
		if err != nil && !errors.Is(err, drive.ErrNotFound) {
			return err
		}
		for key, edit := range edits {
			if edit.Policy.UID != uid {
				continue
			}
			release, takesPart := releases[edit.Service.UID]
			isBrought := takesPart && edit.IsBroughtBy(release) && !edit.IsBehind && isBringing(latest.Run.State)
			switch {
			case isBrought && (waiting[key] || !latest.Run.State.HasEnded()):
				found[key] = &editRollout{policy: policy, of: latest}
				delete(open, key)
			case !edit.IsBehind && !edit.Waits:
				delete(open, key)
			}
		}
	}
	return nil
}

// isBringing reports whether a rollout in a state brings its change to members, or has brought it to all.
func isBringing(state rollout.State) bool {
	return slices.Contains([]rollout.State{rollout.Running, rollout.Paused, rollout.Halted, rollout.Completed}, state)
}
