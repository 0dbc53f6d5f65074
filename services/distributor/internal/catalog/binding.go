// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/accessrule"
	"github.com/leatdev/leat/internal/objectname"
)

// AccessBinding gives people a role in a scope.
type AccessBinding struct {
	Metadata
	Spec AccessBindingSpec
}

// AccessBindingSpec says who may do what where. Its scope is everything that Hub, Projects, Clusters,
// Services and Repositories select together. Its JSON is its stored form.
type AccessBindingSpec struct {
	Description string   `json:"description,omitempty"`
	Users       []string `json:"users,omitempty"`
	Groups      []string `json:"groups,omitempty"`
	// Hub selects everything, also what belongs to no cluster.
	Hub bool `json:"hub,omitempty"`
	// Projects selects clusters, repositories and services by their project.
	Projects ProjectScope `json:"projects,omitzero"`
	// Clusters selects clusters with their services.
	Clusters ClusterSelection `json:"clusters"`
	// Services are paths of single services. One without a cluster selects the services of that name
	// in every cluster. They let nobody reach a cluster.
	Services []string `json:"services,omitempty"`
	// Repositories are names of repositories.
	Repositories []string `json:"repositories,omitempty"`
	Role         RoleName `json:"role,omitempty"`
	// Rules narrow the binding to requests that one of them chooses: requests to clusters and, as
	// resources of the API group leat.dev, calls to the hub. Nil narrows nothing.
	Rules []accessrule.Rule `json:"rules,omitempty"`
	// ClusterGroups are names of further groups in the clusters, without their prefix.
	ClusterGroups []string `json:"clusterGroups,omitempty"`
	// ExpiresAt is when it ends; zero: never.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

// ProjectScope chooses projects.
type ProjectScope struct {
	All   bool     `json:"all,omitempty"`
	Names []string `json:"names,omitempty"`
}

// IsEmpty reports whether the scope chooses no project.
func (s ProjectScope) IsEmpty() bool { return !s.All && len(s.Names) == 0 }

// Covers reports whether the project is one of those that the scope chooses. No project has the name
// "", which only All covers.
func (s ProjectScope) Covers(project string) bool {
	return s.All || project != "" && slices.Contains(s.Names, project)
}

// ClusterSelection chooses clusters: those of the names and those of the labels together.
type ClusterSelection struct {
	All    bool           `json:"all,omitempty"`
	Names  []string       `json:"names,omitempty"`
	Labels *LabelSelector `json:"labels,omitempty"`
}

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

// Place is where the scopes of bindings find an object. The zero Place is the hub as a whole.
type Place struct {
	// Project is the project that the object is in. Empty: it is the hub's.
	Project string
	// Cluster is the path of the cluster that the object runs in, which need not exist. Self is the cluster that the
	// object is.
	Cluster string
	Self    *Cluster
	// Service is the path of the service that the object is, and Namespace the service's.
	Service, Namespace string
	// Repository is the path of the repository that the object is.
	Repository string
	// Binding is what the object binds: it is in the scopes that contain its own.
	Binding *AccessBindingSpec
}

// Key implements Object.
func (b *AccessBinding) Key() Key { return Key{KindAccessBinding, b.Name} }

func (b *AccessBinding) sameSpec(other Object) bool {
	o, ok := other.(*AccessBinding)
	return ok && reflect.DeepEqual(b.Spec, o.Spec)
}

func (b *AccessBinding) clone() Object { return new(*b) }

func (b *AccessBinding) normalize()          { b.Spec.normalize() }
func (b *AccessBinding) settle(Object) error { return nil }
func (b *AccessBinding) reachable() error    { return nil }

func (b *AccessBinding) checkReferences(ctx context.Context, tx Tx) error {
	if _, isBuiltin := BuiltinRole(b.Spec.Role); isBuiltin {
		return nil
	}
	key := Key{KindRole, string(b.Spec.Role)}
	if _, err := tx.Get(ctx, key); errors.Is(err, ErrNotFound) {
		return &ReferenceError{Key: key, Path: "spec.role"}
	} else if err != nil {
		return err
	}
	return nil
}

func (b *AccessBinding) checkSettled(context.Context, Tx) error         { return nil }
func (b *AccessBinding) checkQuota(context.Context, Tx, *Project) error { return nil }
func (b *AccessBinding) secrets() map[string]any                        { return nil }
func (b *AccessBinding) changesRelease(Object) bool                     { return false }

// Place implements Object.
func (b *AccessBinding) Place() Place { return Place{Binding: &b.Spec} }

// Expired reports whether the binding has ended.
func (b *AccessBinding) Expired(at time.Time) bool {
	return !b.Spec.ExpiresAt.IsZero() && !at.Before(b.Spec.ExpiresAt)
}

// Reaches reports whether the cluster is in the binding's scope, with everything that it runs.
func (s AccessBindingSpec) Reaches(cluster *Cluster) bool {
	return s.Hub || s.Projects.Covers(objectname.Project(cluster.Name)) || s.Clusters.Covers(cluster)
}

// IsEmpty reports whether the selection chooses no cluster, whatever clusters there are.
func (s ClusterSelection) IsEmpty() bool { return !s.All && len(s.Names) == 0 && s.Labels == nil }

// Covers reports whether the cluster is one of those that the selection chooses.
func (s ClusterSelection) Covers(cluster *Cluster) bool {
	return s.All || slices.Contains(s.Names, cluster.Name) || s.Labels != nil && s.Labels.Matches(cluster.Labels)
}

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

// normalize gives a spec its one stored form: lists without order are sorted, and empty ones nil. It
// works on a clone.
func (s *AccessBindingSpec) normalize() {
	s.Users, s.Groups, s.ClusterGroups = asSet(s.Users), asSet(s.Groups), asSet(s.ClusterGroups)
	s.Clusters.Names, s.Services, s.Repositories = asSet(s.Clusters.Names), asSet(s.Services), asSet(s.Repositories)
	s.Projects.Names = asSet(s.Projects.Names)
	if len(s.Rules) == 0 {
		s.Rules = nil
	}
	s.Rules = slices.Clone(s.Rules)
	for i, r := range s.Rules {
		s.Rules[i] = accessrule.Rule{
			Verbs: asSet(r.Verbs), APIGroups: asSet(r.APIGroups), Resources: asSet(r.Resources), Namespaces: asSet(r.Namespaces), Paths: asSet(r.Paths),
		}
	}
	s.Clusters.Labels = s.Clusters.Labels.settled()
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

// asSet returns the items rising, each once; nil if there are none.
func asSet(items []string) []string {
	if len(items) == 0 {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(items)))
}
