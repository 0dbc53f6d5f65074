// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/order"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// stager applies the stages of a schedule: objects, and the hooks between them.
//
// A stage is complete when its objects are accepted, its hooks have ended, and its objects are
// healthy if a later stage needs that. The next stage begins only then. Each stage has the apply
// timeout to itself, without the time of waiting for hooks and health.
type stager struct {
	r       *run
	reached *reached // nil in a removal
	applier *applier // nil in a removal, whose stages hold hooks only
	hooks   *hookRunner
}

func newStager(r *run) *stager {
	s := &reached{}
	return &stager{r: r, reached: s, applier: newApplier(r, s), hooks: &hookRunner{r: r, reached: s}}
}

// newRemovalStager returns a stager for the hooks of a removal.
func newRemovalStager(r *run) *stager {
	return &stager{r: r, hooks: &hookRunner{r: r, reached: &reached{}, isRemoval: true}}
}

// applyPhases applies the stages of phases. If one fails, it runs the SyncFail hooks.
func (s *stager) applyPhases(ctx context.Context, phases ...order.Phase) error {
	for _, phase := range phases {
		if err := s.applyPhase(ctx, phase); err != nil {
			s.runSyncFailHooks(ctx, err)
			return err
		}
	}
	return nil
}

// runSyncFailHooks runs the SyncFail hooks after a failed apply. Their results do not change the
// failure. They do not run if the cluster does not answer, the manifests are invalid, or the
// failure is internal.
func (s *stager) runSyncFailHooks(ctx context.Context, err error) {
	others := []reason.Reason{reason.ClusterUnreachable, reason.Internal, reason.ManifestInvalid}
	if ctx.Err() != nil || slices.Contains(others, reason.ProblemOf(err).Reason) {
		return
	}
	if err := s.applyPhase(ctx, order.SyncFail); err != nil && ctx.Err() == nil {
		s.r.log(ctx, slog.LevelWarn, "hook for a failed sync did not run well", slog.Any("error", err))
	}
}

// applyPhase applies the stages of a phase. Hooks are deleted at the end of the phase, and not of
// their stage, because later hooks may need objects that earlier ones have created.
func (s *stager) applyPhase(ctx context.Context, phase order.Phase) error {
	s.hooks.phase = nil
	var err error
	for _, stage := range s.r.schedule.Of(phase) {
		if err = s.applyStage(ctx, stage); err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return err
	}
	return cmp.Or(err, s.hooks.endPhase(ctx))
}

// applyStage applies one stage, rank by rank. It tries every object of it; a stage with failures is
// the last. A strict rank is skipped after a failure.
func (s *stager) applyStage(ctx context.Context, stage order.Stage) error {
	s.r.Turn.Renew()
	failures := &Failures{verb: "apply"}
	var hooks []*hook
	var refs []inventory.Ref
	for _, rank := range stage.Ranks() {
		if rank.Strict && len(failures.Objects) > 0 {
			break
		}
		if objects := objectsOf(rank.Members); len(objects) > 0 && s.applier != nil {
			applied, err := s.applier.apply(ctx, stage.Wave, objects, failures)
			if err != nil {
				return err
			}
			refs = append(refs, applied...)
		}
		launched, err := s.hooks.launch(ctx, stage.Phase, rank.Members, failures)
		if err != nil {
			return err
		}
		hooks = append(hooks, launched...)
	}
	if err := failures.orNil(); err != nil {
		return err
	}
	if err := s.hooks.await(ctx, hooks); err != nil {
		return err
	}
	return s.awaitHealthy(ctx, stage, refs)
}

// objectsOf returns the members that are not hooks.
func objectsOf(members []order.Member) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, m := range members {
		if !m.Hook {
			objects = append(objects, m.Object)
		}
	}
	return objects
}

// awaitHealthy blocks until all objects of a stage are healthy, if a later stage needs this.
func (s *stager) awaitHealthy(ctx context.Context, stage order.Stage, refs []inventory.Ref) error {
	if !stage.Awaited || !s.r.IsChange || len(refs) == 0 {
		return nil
	}
	timeout := s.r.Service.Spec.HealthTimeoutOrDefault()
	waiting, cancel := context.WithTimeoutCause(ctx, timeout, errImpatient)
	defer cancel()
	var lagging []report.ObjectStatus
	err := s.r.await(waiting, func() bool {
		lagging = s.r.Objects.Unhealthy(refs)
		return len(lagging) == 0 || slices.ContainsFunc(lagging, isHopeless)
	})
	for i := range lagging {
		lagging[i].Health = s.r.x.params.Shown(s.r.Service.Name, lagging[i].Health)
	}
	switch {
	case errors.Is(err, errImpatient):
		return report.Unhealthy(fmt.Sprintf("%s is not healthy within %v", stage, timeout), lagging,
			health.Unknown, health.Progressing, health.Terminating)
	case err != nil:
		return err
	case len(lagging) > 0:
		return report.Unhealthy(fmt.Sprintf("%s is not healthy", stage), lagging, health.Degraded, health.Missing)
	}
	return nil
}

// isHopeless reports whether an object cannot become healthy without a change.
func isHopeless(o report.ObjectStatus) bool {
	return o.Health.State == health.Degraded || o.Health.State == health.Missing
}
