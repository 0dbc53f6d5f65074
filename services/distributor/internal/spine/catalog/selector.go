// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"maps"
	"slices"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
)

const (
	maxExpressions   = 32
	maxLabelValues   = 64
	maxClusterNames  = 1000
	maxSelectedNames = 1000
)

// LabelSelector chooses objects of which everything is so that it asks for.
type LabelSelector struct {
	MatchLabels      map[string]string  `json:"matchLabels,omitempty"`
	MatchExpressions []LabelRequirement `json:"matchExpressions,omitempty"`
}

// LabelRequirement is a condition on one label.
type LabelRequirement struct {
	Key      string        `json:"key"`
	Operator LabelOperator `json:"operator"`
	Values   []string      `json:"values,omitempty"`
}

// LabelOperator is a way to compare a label's value.
type LabelOperator string

// The operators. A label that is not there has no value that is in a list.
const (
	LabelIn           LabelOperator = "In"
	LabelNotIn        LabelOperator = "NotIn"
	LabelExists       LabelOperator = "Exists"
	LabelDoesNotExist LabelOperator = "DoesNotExist"
)

// Matches reports whether the labels are as the selector asks. An empty selector matches nothing
// here: see Validate.
func (s *LabelSelector) Matches(labels map[string]string) bool {
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return false
	}
	for key, want := range s.MatchLabels {
		if value, ok := labels[key]; !ok || value != want {
			return false
		}
	}
	return !slices.ContainsFunc(s.MatchExpressions, func(r LabelRequirement) bool { return !r.matches(labels) })
}

func (r LabelRequirement) matches(labels map[string]string) bool {
	value, ok := labels[r.Key]
	switch r.Operator {
	case LabelIn:
		return ok && slices.Contains(r.Values, value)
	case LabelNotIn:
		return !ok || !slices.Contains(r.Values, value)
	case LabelExists:
		return ok
	case LabelDoesNotExist:
		return !ok
	}
	return false
}

// settled returns the selector in its one stored form.
func (s *LabelSelector) settled() *LabelSelector {
	if s == nil {
		return nil
	}
	labels := &LabelSelector{}
	if len(s.MatchLabels) > 0 {
		labels.MatchLabels = maps.Clone(s.MatchLabels)
	}
	for _, r := range s.MatchExpressions {
		r.Values = asSet(r.Values)
		labels.MatchExpressions = append(labels.MatchExpressions, r)
	}
	return labels
}

func (s *LabelSelector) validate(field string) error {
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return fielderr.New(field, "is empty; ask for at least one label, or write all: true for all clusters")
	}
	return cmp.Or(
		check.Labels(field+".match_labels", s.MatchLabels),
		fielderr.Each(field+".match_expressions", "conditions", s.MatchExpressions, maxExpressions, validateRequirement),
	)
}

func validateRequirement(field string, r LabelRequirement) error {
	if err := check.Qualified(field+".key", r.Key); err != nil {
		return err
	}
	switch r.Operator {
	case LabelIn, LabelNotIn:
		if len(r.Values) == 0 {
			return fielderr.New(field+".values", "is required for this operator")
		}
	case LabelExists, LabelDoesNotExist:
		if len(r.Values) > 0 {
			return fielderr.New(field+".values", "has no meaning for this operator; leave it out")
		}
	default:
		return fielderr.New(field+".operator", "is required: in, not_in, exists or does_not_exist")
	}
	return fielderr.Each(field+".values", "items", r.Values, maxLabelValues, check.LabelValue)
}

// ClusterSelection chooses clusters: by names and by labels together.
type ClusterSelection struct {
	All    bool           `json:"all,omitempty"`
	Names  []string       `json:"names,omitempty"`
	Labels *LabelSelector `json:"labels,omitempty"`
}

// IsEmpty reports whether the selection chooses no cluster, whatever clusters there are.
func (s ClusterSelection) IsEmpty() bool { return !s.All && len(s.Names) == 0 && s.Labels == nil }

// Covers reports whether the cluster is one that the selection chooses.
func (s ClusterSelection) Covers(cluster *Metadata) bool {
	return s.All || slices.Contains(s.Names, cluster.Name) || s.Labels != nil && s.Labels.Matches(cluster.Labels)
}

func (s ClusterSelection) validate() error {
	switch some := len(s.Names) > 0 || s.Labels != nil; {
	case s.All && some:
		return fielderr.New("spec.clusters.all", "means all clusters already; leave out names and labels, or all")
	}
	err := fielderr.Each("spec.clusters.names", "items", s.Names, maxClusterNames, objectname.Validate)
	if err != nil || s.Labels == nil {
		return err
	}
	return s.Labels.validate("spec.clusters.labels")
}

// Selection selects objects of one kind: by names and by labels together. The zero Selection
// selects none.
type Selection struct {
	All    bool           `json:"all,omitempty"`
	Names  []string       `json:"names,omitempty"`
	Labels *LabelSelector `json:"labels,omitempty"`
}

// isZero reports whether nothing is selected.
func (s Selection) isZero() bool { return !s.All && len(s.Names) == 0 && s.Labels == nil }

// covers reports whether the object of that name in its project, with those labels, is selected.
func (s Selection) covers(name string, labels map[string]string) bool {
	return s.All || slices.Contains(s.Names, name) || s.Labels != nil && s.Labels.Matches(labels)
}

func (s Selection) settled() Selection {
	s.Names, s.Labels = asSet(s.Names), s.Labels.settled()
	return s
}

func (s Selection) validate(field string) error {
	if s.All && (len(s.Names) > 0 || s.Labels != nil) {
		return fielderr.New(field+".all", "selects everything already; leave out names and labels, or all")
	}
	err := fielderr.Each(field+".names", "items", s.Names, maxSelectedNames, objectname.ValidateLabel)
	if err != nil || s.Labels == nil {
		return err
	}
	return s.Labels.validate(field + ".labels")
}

// ProjectScope chooses projects.
type ProjectScope struct {
	All   bool     `json:"all,omitempty"`
	Names []string `json:"names,omitempty"`
}

// IsEmpty reports whether the scope chooses no project.
func (s ProjectScope) IsEmpty() bool { return !s.All && len(s.Names) == 0 }

// Covers reports whether the project is one that the scope chooses. No project has the name "",
// which only All covers.
func (s ProjectScope) Covers(project string) bool {
	return s.All || project != "" && slices.Contains(s.Names, project)
}

// asSet returns the items rising, each once; nil if there are none.
func asSet(items []string) []string {
	if len(items) == 0 {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(items)))
}
