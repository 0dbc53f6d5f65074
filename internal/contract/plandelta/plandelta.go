// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package plandelta holds what both ends of the wire have to agree on about deltas of plans: how a
// delta is applied, and how the result is verified.
package plandelta

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/contract/digest"
)

// ErrUnfit is matched by the errors of [Apply]: the delta does not fit the plan. The caller then
// asks for the whole plan.
var ErrUnfit = errors.New("delta does not fit the plan")

// subject begins every sum, so that a sum never equals a digest of something else.
const subject = "leat.plan.sum.v1"

// Apply returns the plan that results from the delta. It does not change old, but the result shares
// services with old and with the delta.
//
// Apply verifies everything: the delta must begin at the version of old, name each service once and
// in order, remove only existing services, and lead to services with its sum. Otherwise the error
// matches [ErrUnfit].
func Apply(old *distributorv1.Plan, delta *distributorv1.PlanDelta) (*distributorv1.Plan, error) {
	if got, want := old.GetVersion(), delta.GetFromVersion(); got != want || got == "" {
		return nil, unfit("the plan has version %q, the delta begins at %q", got, want)
	}
	if delta.GetToVersion() == "" {
		return nil, unfit("it leads to no version")
	}
	kept, err := remove(old.GetServices(), delta.GetRemoved())
	if err != nil {
		return nil, err
	}
	services, err := merge(kept, delta.GetServices())
	if err != nil {
		return nil, err
	}
	if got, want := Sum(services...), delta.GetSum(); got != want {
		return nil, unfit("the services have the sum %s, want %q", got, want)
	}
	return &distributorv1.Plan{
		Cluster: old.GetCluster(), Version: delta.GetToVersion(), Services: services, Time: delta.GetTime(),
		Settings: delta.GetSettings(), Facts: delta.GetFacts(), RemovalsHeldSince: delta.GetRemovalsHeldSince(),
	}, nil
}

func unfit(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnfit, fmt.Sprintf(format, args...))
}

func remove(services []*distributorv1.PlanService, names []string) ([]*distributorv1.PlanService, error) {
	gone := make(map[string]bool, len(names))
	for _, name := range names {
		gone[name] = true
	}
	kept := slices.DeleteFunc(slices.Clone(services), func(s *distributorv1.PlanService) bool { return gone[s.GetName()] })
	if len(kept)+len(names) != len(services) {
		return nil, unfit("it removes a service that does not exist, or the same one twice")
	}
	return kept, nil
}

// merge replaces and adds the changed services by name. Both lists are sorted by name, and so is
// the result.
func merge(kept, changed []*distributorv1.PlanService) ([]*distributorv1.PlanService, error) {
	merged := make([]*distributorv1.PlanService, 0, len(kept)+len(changed))
	for _, service := range changed {
		for len(kept) > 0 && kept[0].GetName() < service.GetName() {
			merged, kept = append(merged, kept[0]), kept[1:]
		}
		if len(kept) > 0 && kept[0].GetName() == service.GetName() {
			kept = kept[1:]
		}
		merged = append(merged, service)
	}
	merged = append(merged, kept...)
	for i := range merged {
		if i > 0 && merged[i-1].GetName() >= merged[i].GetName() {
			return nil, unfit("service %q is there twice, or out of order", merged[i].GetName())
		}
	}
	return merged, nil
}

// Sum returns the value of PlanDelta.sum over services in any order. It covers everything that the
// agent acts upon, by digest, and neither commits nor traces.
func Sum(services ...*distributorv1.PlanService) string {
	byName := func(a, b *distributorv1.PlanService) int { return cmp.Compare(a.GetName(), b.GetName()) }
	if !slices.IsSortedFunc(services, byName) {
		services = slices.SortedFunc(slices.Values(services), byName)
	}
	s := digest.NewSequence(subject)
	for _, service := range services {
		addService(s, service)
	}
	return s.Digest().String()
}

func addService(s *digest.Sequence, m *distributorv1.PlanService) {
	for _, text := range []string{m.GetName(), m.GetUid(), m.GetSpecDigest(), m.GetConfigDigest(), m.GetSyncRequest()} {
		s.Text(text)
	}
	s.Number(int64(len(m.GetBundles())))
	for _, bundle := range m.GetBundles() {
		s.Text(bundle.GetDigest())
	}
}
