// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package clusterprofile publishes the clusters of a fleet as ClusterProfiles of the Cluster Inventory API (KEP-4322), with an access
// provider (KEP-5339) by which other tools reach each of them through the hub's tunnel.
package clusterprofile

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"github.com/leatdev/leat/cli/internal/kubeconfig"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
)

const (
	// Provider is the name of the access provider: tools have a table from such names to a credential plugin.
	Provider = "leat"

	apiVersion   = "multicluster.x-k8s.io/v1alpha1"
	kind         = "ClusterProfile"
	managerLabel = "x-k8s.io/cluster-manager"
	healthy      = "ControlPlaneHealthy"

	// Bounds of the API's schema, in bytes.
	maxValue   = 1024
	maxVersion = 64
)

// Properties that are not the API's own.
const (
	propertyProject  = "leat.dev/project"
	propertyAgent    = "leat.dev/agent-version"
	propertyProvider = "leat.dev/provider"
)

// Profile is a ClusterProfile, with the fields that Leat sets.
type Profile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitzero"`
}

// Spec is what a cluster is called, and by whom it is managed.
type Spec struct {
	DisplayName    string  `json:"displayName,omitempty"`
	ClusterManager Manager `json:"clusterManager"`
}

// Manager is a system that manages clusters. It cannot be changed in a profile.
type Manager struct {
	Name string `json:"name"`
}

// Status is the state of a cluster.
type Status struct {
	Conditions      []metav1.Condition `json:"conditions,omitempty"`
	Version         Version            `json:"version,omitzero"`
	Properties      []Property         `json:"properties,omitempty"`
	AccessProviders []AccessProvider   `json:"accessProviders,omitempty"`
}

// Version is the version of Kubernetes.
type Version struct {
	Kubernetes string `json:"kubernetes,omitempty"`
}

// Property is something that is known of a cluster.
type Property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// AccessProvider is a way to reach a cluster.
type AccessProvider struct {
	Name    string              `json:"name"`
	Cluster clientcmdv1.Cluster `json:"cluster"`
}

// Params are what all profiles of a fleet have in common.
type Params struct {
	Manager   string // the name of the fleet among cluster managers
	TunnelURL string // base URL of the hub's tunnel
	CAPEM     []byte // certificates to trust for it; empty means the system's
}

// Of returns the profile of a cluster. ok is false for a cluster of which no object can have the name: see objectname.HostLabel.
func (p Params) Of(cluster *fleetv1.Cluster) (_ *Profile, ok bool) {
	metadata, status := cluster.GetMetadata(), cluster.GetStatus()
	path := objectname.Join(metadata.GetProject(), metadata.GetName())
	name, ok := objectname.HostLabel(path)
	if !ok {
		return nil, false
	}
	report := status.GetReport()
	profile := &Profile{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelsOf(metadata.GetLabels(), p.Manager)},
		Spec:       Spec{DisplayName: objectname.Display(path), ClusterManager: Manager{p.Manager}},
		Status: Status{
			Conditions: []metav1.Condition{conditionOf(status)},
			Version:    Version{cut(report.GetKubernetesVersion(), maxVersion)},
			AccessProviders: []AccessProvider{{Provider, clientcmdv1.Cluster{
				Server: kubeconfig.ServerURL(p.TunnelURL, path), CertificateAuthorityData: p.CAPEM,
			}}},
		},
	}
	for _, property := range []Property{
		{propertyAgent, report.GetAgentVersion()}, {propertyProject, metadata.GetProject()}, {propertyProvider, report.GetProvider()},
	} {
		if property.Value = cut(property.Value, maxValue); property.Value != "" {
			profile.Status.Properties = append(profile.Status.Properties, property)
		}
	}
	return profile, true
}

// labelsOf returns the labels of a cluster that its profile has: all but those of Kubernetes, by which other controllers of the
// management cluster decide.
func labelsOf(labels map[string]string, manager string) map[string]string {
	own := maps.Clone(labels)
	maps.DeleteFunc(own, func(key, _ string) bool {
		prefix, _, isQualified := strings.Cut(key, "/")
		return isQualified && (within(prefix, "k8s.io") || within(prefix, "x-k8s.io") || within(prefix, "kubernetes.io"))
	})
	if own == nil {
		own = map[string]string{}
	}
	own[managerLabel] = manager
	return own
}

func within(host, domain string) bool { return host == domain || strings.HasSuffix(host, "."+domain) }

func conditionOf(status *fleetv1.ClusterStatus) metav1.Condition {
	switch {
	case status.GetConnected():
		return metav1.Condition{Type: healthy, Status: metav1.ConditionTrue, Reason: "AgentConnected", Message: "its agent reports"}
	case status.GetEnrolled():
		return metav1.Condition{Type: healthy, Status: metav1.ConditionUnknown, Reason: "AgentSilent", Message: "its agent does not report"}
	default:
		return metav1.Condition{Type: healthy, Status: metav1.ConditionUnknown, Reason: "NotEnrolled", Message: "no agent has enrolled"}
	}
}

// cut returns at most so many bytes of a text that an agent has sent.
func cut(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// Change is what has to be done so that the profiles in a namespace are those of the fleet.
type Change struct {
	Apply  []*Profile // new ones, and those that differ, by name
	Remove []*Profile // of clusters that are gone, by name
	// Foreign are the names of clusters whose profile belongs to another cluster manager, which keeps it.
	Foreign []string
	Managed int // how many profiles there are of this manager
}

// Compare returns what has to be done. Profiles of other managers stay. now is when a condition has changed that differs.
func (p Params) Compare(existing, wanted []*Profile, now time.Time) Change {
	change, has := Change{}, map[string]*Profile{}
	for _, profile := range existing {
		has[profile.Name] = profile
	}
	for _, profile := range wanted {
		found, isThere := has[profile.Name]
		delete(has, profile.Name)
		if isThere && found.Spec.ClusterManager.Name != p.Manager {
			change.Foreign = append(change.Foreign, profile.Name)
			continue
		}
		dated := profile.since(found, now)
		if isThere {
			change.Managed++
		}
		if !isThere || !dated.sameAs(found) {
			change.Apply = append(change.Apply, dated)
		}
	}
	for _, profile := range has {
		if profile.Spec.ClusterManager.Name == p.Manager {
			change.Managed++
			change.Remove = append(change.Remove, profile)
		}
	}
	byName := func(a, b *Profile) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(change.Apply, byName)
	slices.SortFunc(change.Remove, byName)
	slices.Sort(change.Foreign)
	return change
}

// since returns a copy whose conditions have the times of the former profile where their status is the same, and now elsewhere. The
// API has seconds.
func (p *Profile) since(former *Profile, now time.Time) *Profile {
	dated := *p
	dated.Status.Conditions = slices.Clone(p.Status.Conditions)
	for i := range dated.Status.Conditions {
		condition := &dated.Status.Conditions[i]
		condition.LastTransitionTime = metav1.NewTime(now.UTC().Truncate(time.Second))
		if former == nil {
			continue
		}
		for _, before := range former.Status.Conditions {
			if before.Type == condition.Type && before.Status == condition.Status {
				condition.LastTransitionTime = before.LastTransitionTime
			}
		}
	}
	return &dated
}

// sameAs reports whether a profile in the cluster has all that p has. It may have more labels, of others.
func (p *Profile) sameAs(found *Profile) bool {
	for _, key := range found.ownLabels() {
		if _, ok := p.Labels[key]; !ok {
			return false
		}
	}
	for key, value := range p.Labels {
		if got, ok := found.Labels[key]; !ok || got != value {
			return false
		}
	}
	return p.Spec == found.Spec && reflect.DeepEqual(p.Status.plain(), found.Status.plain())
}

// ownLabels returns the keys of the labels that Leat has set in a profile of the cluster, by the owners of its fields.
func (p *Profile) ownLabels() []string {
	var keys []string
	for _, entry := range p.ManagedFields {
		if entry.Manager != fieldManager || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Metadata struct {
				Labels map[string]any `json:"f:labels"`
			} `json:"f:metadata"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue // the API server checks what it stores
		}
		for field := range fields.Metadata.Labels {
			keys = append(keys, strings.TrimPrefix(field, "f:"))
		}
	}
	return keys
}

// plain returns the status with instants that compare.
func (s Status) plain() Status {
	s.Conditions = slices.Clone(s.Conditions)
	for i := range s.Conditions {
		s.Conditions[i].LastTransitionTime = metav1.Unix(s.Conditions[i].LastTransitionTime.Unix(), 0)
	}
	return s
}

// RemovalError is that a look would remove so many profiles that the cause is more likely a mistake than clusters that are gone, such as
// a person whose binding was removed.
type RemovalError struct{ Remove, Managed int }

// Error implements error.
func (e *RemovalError) Error() string {
	return fmt.Sprintf("%d of %d profiles are of clusters that you do not see any more", e.Remove, e.Managed)
}

// fewRemovals are always agreed to.
const fewRemovals = 3

// Guard returns an error if the change removes more than half of the profiles.
func (c Change) Guard() error {
	if len(c.Remove) > fewRemovals && 2*len(c.Remove) > c.Managed {
		return &RemovalError{len(c.Remove), c.Managed}
	}
	return nil
}
