// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"

	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

func refOf(r inventory.Ref) *typev1.ObjectRef {
	return &typev1.ObjectRef{Group: r.Group, Version: r.Version, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}

func objectOf(o report.ObjectStatus) *typev1.ObjectStatus {
	status := &typev1.ObjectStatus{Ref: refOf(o.Ref), Health: healthOf(o.Health.State)}
	switch {
	case o.Problem != nil:
		status.Problem = &typev1.Problem{Reason: errorsv1.Reason(o.Problem.Reason), Message: o.Problem.Message}
	case o.Health.Message != "":
		status.Problem = &typev1.Problem{Message: o.Health.Message}
	}
	return status
}

// bundlesOf returns the bundles that a caller names. The hub decides whether the agent may download
// them.
func bundlesOf(messages []*distributorv1.PlanBundle) ([]plan.Bundle, error) {
	var all []plan.Bundle
	for i, b := range messages {
		parsed, err := digest.Parse(b.GetDigest())
		if err != nil {
			return nil, rpcerr.Field(fmt.Sprintf("bundles[%d].digest", i), "is not a digest")
		}
		all = append(all, plan.Bundle{
			Digest: parsed, Commit: b.GetCommit(), Repository: b.GetRepository(), Path: b.GetPath(), Subpath: b.GetSubpath(),
		})
	}
	return all, nil
}

func problemOf(p *reason.Problem) *typev1.Problem {
	if p == nil {
		return nil
	}
	return &typev1.Problem{Reason: errorsv1.Reason(p.Reason), Message: p.Message}
}

func actionOf(c report.Change) agentv1.DiffAction {
	return map[report.Change]agentv1.DiffAction{
		report.Create:     agentv1.DiffAction_DIFF_ACTION_CREATE,
		report.Update:     agentv1.DiffAction_DIFF_ACTION_UPDATE,
		report.Delete:     agentv1.DiffAction_DIFF_ACTION_DELETE,
		report.Impossible: agentv1.DiffAction_DIFF_ACTION_REFUSE,
	}[c]
}

func phaseOf(p report.Phase) typev1.ServicePhase {
	return map[report.Phase]typev1.ServicePhase{
		report.Pending:     typev1.ServicePhase_SERVICE_PHASE_PENDING,
		report.Syncing:     typev1.ServicePhase_SERVICE_PHASE_SYNCING,
		report.Progressing: typev1.ServicePhase_SERVICE_PHASE_PROGRESSING,
		report.Healthy:     typev1.ServicePhase_SERVICE_PHASE_HEALTHY,
		report.Degraded:    typev1.ServicePhase_SERVICE_PHASE_DEGRADED,
		report.Failed:      typev1.ServicePhase_SERVICE_PHASE_FAILED,
		report.Paused:      typev1.ServicePhase_SERVICE_PHASE_PAUSED,
	}[p]
}

func healthOf(s health.State) typev1.Health {
	return map[health.State]typev1.Health{
		health.Healthy:     typev1.Health_HEALTH_HEALTHY,
		health.Progressing: typev1.Health_HEALTH_PROGRESSING,
		health.Degraded:    typev1.Health_HEALTH_DEGRADED,
		health.Terminating: typev1.Health_HEALTH_TERMINATING,
		health.Missing:     typev1.Health_HEALTH_MISSING,
	}[s]
}
