// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
	"github.com/leatdev/leat/services/agent/internal/wire"
)

// bundlesOf are bundles that a caller names. The hub decides whether the agent may download them.
func bundlesOf(messages []*distributorv1.PlanBundle) ([]plan.Bundle, error) {
	var all []plan.Bundle
	for i, b := range messages {
		bundle, err := wire.BundleOf(b)
		if err != nil {
			return nil, rpcerr.Field(fmt.Sprintf("bundles[%d].digest", i), "is not a digest")
		}
		all = append(all, bundle)
	}
	return all, nil
}

// fieldsOf returns the messages of fields.
func fieldsOf(all []fields.Difference) []*agentv1.FieldDiff {
	var messages []*agentv1.FieldDiff
	for _, f := range all {
		message := &agentv1.FieldDiff{Path: f.Path, Before: f.Before, After: f.After, IsTaken: f.IsTaken, Rule: f.Rule}
		for _, owner := range f.Owners {
			manager := &agentv1.FieldManager{Name: owner.Name, Operation: owner.Operation}
			if !owner.Time.IsZero() {
				manager.Time = timestamppb.New(owner.Time)
			}
			message.Managers = append(message.Managers, manager)
		}
		messages = append(messages, message)
	}
	return messages
}

func actionOf(c report.Change) agentv1.DiffAction {
	return map[report.Change]agentv1.DiffAction{
		report.Create:     agentv1.DiffAction_DIFF_ACTION_CREATE,
		report.Update:     agentv1.DiffAction_DIFF_ACTION_UPDATE,
		report.Delete:     agentv1.DiffAction_DIFF_ACTION_DELETE,
		report.Impossible: agentv1.DiffAction_DIFF_ACTION_REFUSE,
	}[c]
}
