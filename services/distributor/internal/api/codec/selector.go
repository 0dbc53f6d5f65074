// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

func selectorOf(m *fleetv1.LabelSelector) *catalog.LabelSelector {
	if m == nil {
		return nil
	}
	return &catalog.LabelSelector{
		MatchLabels: m.GetMatchLabels(),
		MatchExpressions: wire.Each(m.GetMatchExpressions(), func(r *fleetv1.LabelRequirement) catalog.LabelRequirement {
			return catalog.LabelRequirement{Key: r.GetKey(), Operator: operators()[r.GetOperator()], Values: r.GetValues()}
		}),
	}
}

func operators() map[fleetv1.LabelOperator]catalog.LabelOperator {
	return map[fleetv1.LabelOperator]catalog.LabelOperator{
		fleetv1.LabelOperator_LABEL_OPERATOR_IN:             catalog.LabelIn,
		fleetv1.LabelOperator_LABEL_OPERATOR_NOT_IN:         catalog.LabelNotIn,
		fleetv1.LabelOperator_LABEL_OPERATOR_EXISTS:         catalog.LabelExists,
		fleetv1.LabelOperator_LABEL_OPERATOR_DOES_NOT_EXIST: catalog.LabelDoesNotExist,
	}
}

func operatorMessage(operator catalog.LabelOperator) fleetv1.LabelOperator {
	for m, o := range operators() {
		if o == operator {
			return m
		}
	}
	return fleetv1.LabelOperator_LABEL_OPERATOR_UNSPECIFIED
}

func clustersMessage(s catalog.ClusterSelection) *fleetv1.ClusterSelection {
	if s.IsEmpty() {
		return nil
	}
	return &fleetv1.ClusterSelection{All: s.All, Names: FormatNames(s.Names, objectname.Default), Labels: selectorMessage(s.Labels)}
}

func selectorMessage(s *catalog.LabelSelector) *fleetv1.LabelSelector {
	if s == nil {
		return nil
	}
	return &fleetv1.LabelSelector{
		MatchLabels: s.MatchLabels,
		MatchExpressions: wire.Each(s.MatchExpressions, func(r catalog.LabelRequirement) *fleetv1.LabelRequirement {
			return &fleetv1.LabelRequirement{Key: r.Key, Operator: operatorMessage(r.Operator), Values: r.Values}
		}),
	}
}

func selectionOf(m *fleetv1.Selection) catalog.Selection {
	return catalog.Selection{All: m.GetAll(), Names: m.GetNames(), Labels: selectorOf(m.GetLabels())}
}

// selectionMessage returns nil for a selection of nothing.
func selectionMessage(s catalog.Selection) *fleetv1.Selection {
	if !s.All && len(s.Names) == 0 && s.Labels == nil {
		return nil
	}
	return &fleetv1.Selection{All: s.All, Names: s.Names, Labels: selectorMessage(s.Labels)}
}
