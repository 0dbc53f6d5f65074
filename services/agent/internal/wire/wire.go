// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package wire holds the messages that the agent exchanges both with the hub and with people who
// ask it: package control and package api convert everything else themselves.
package wire

import (
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// BundleOf returns the bundle of a message. The error means that its digest is not one.
func BundleOf(m *distributorv1.PlanBundle) (plan.Bundle, error) {
	parsed, err := digest.Parse(m.GetDigest())
	return plan.Bundle{
		Digest: parsed, Commit: m.GetCommit(), Version: m.GetVersion(), Repository: m.GetRepository(), Path: m.GetPath(),
		Subpath: m.GetSubpath(), Mount: m.GetMount(),
	}, err
}

// FactsOf returns the facts of a message, and the cluster's name in its project.
func FactsOf(cluster string, m *typev1.ClusterFacts) plan.Facts {
	_, name := objectname.Split(cluster)
	return plan.Facts{Name: name, Labels: m.GetLabels(), Annotations: m.GetAnnotations()}
}

// Refused returns the problem of a service whose spec asks for something that this agent does not
// know: a policy, a render step or a capability word. The path of err begins at the spec. The
// service is left unchanged: without the unknown part it would be another service.
func Refused(err error) *reason.Problem {
	return reason.Errorf(reason.Unimplemented,
		"the service is left as it is, because this agent does not understand its spec; upgrade the agent: spec.%v", err)
}

// Ref returns the message of an object's name.
func Ref(r inventory.Ref) *typev1.ObjectRef {
	return &typev1.ObjectRef{Group: r.Group, Version: r.Version, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}

// Problem returns the message of a problem, or nil for nil.
func Problem(p *reason.Problem) *typev1.Problem {
	if p == nil {
		return nil
	}
	return &typev1.Problem{Reason: errorsv1.Reason(p.Reason), Message: p.Message}
}

// Object returns the message of an object's status. Without a problem, its health takes the
// problem's place.
func Object(o report.ObjectStatus) *typev1.ObjectStatus {
	problem := Problem(o.Problem)
	if problem == nil && o.Health.Message != "" {
		problem = &typev1.Problem{Message: o.Health.Message}
	}
	return &typev1.ObjectStatus{Ref: Ref(o.Ref), Health: healthOf(o.Health.State), Problem: problem}
}

// Phase returns the message of a phase.
func Phase(p report.Phase) typev1.ServicePhase {
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
