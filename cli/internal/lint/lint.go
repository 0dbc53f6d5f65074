// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package lint compares rendered objects with the schemas of Kubernetes and of the definitions among
// them, without a cluster.
//
// Schemas of Kubernetes' own kinds come with client-go for server-side apply, and its Go types;
// they are of the version [kubeapi.Newest]. It finds unknown fields, values of a wrong type, items
// of a list with equal keys, and APIs that a version does not have. It does not look for required
// fields, ranges, patterns and rules in CEL: only an API server knows those.
package lint

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/cli/internal/kubeapi"
	"github.com/leatdev/leat/render"
)

// Severity is the severity of a finding.
type Severity string

// The severities.
const (
	// Error: an API server refuses the object, or drops the field.
	Error Severity = "error"
	// Warning: it works today, or in some clusters.
	Warning Severity = "warning"
)

// Finding is one thing that is wrong with an object.
type Finding struct {
	Severity Severity `json:"severity"`
	// Path and Document are the object's place; see render.Object.
	Path       string `json:"path"`
	Document   int    `json:"document"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// Field is the field's path, such as spec.containers[0].image. Empty: the whole object.
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// Report is the outcome of a check.
type Report struct {
	// KubernetesVersion is the version that the objects were compared with.
	KubernetesVersion string `json:"kubernetesVersion"`
	// Objects is how many there were, and Unchecked those whose kind has no known schema, by their
	// kinds.
	Objects   int            `json:"objects"`
	Unchecked map[string]int `json:"unchecked,omitempty"`
	// Findings come in the order of the objects.
	Findings []Finding `json:"findings"`
}

// Count returns the number of findings of a severity.
func (r Report) Count(severity Severity) (count int) {
	for _, f := range r.Findings {
		if f.Severity == severity {
			count++
		}
	}
	return count
}

// Check compares objects with a version of Kubernetes.
func Check(objects []render.Object, at kubeapi.Version) Report {
	c := checker{at: at, own: newOwnSchemas(), definitions: definitions{}}
	report := Report{KubernetesVersion: at.String(), Objects: len(objects), Unchecked: map[string]int{}, Findings: []Finding{}}
	for _, o := range objects {
		report.Findings = append(report.Findings, c.definitions.add(o)...)
	}
	for _, o := range objects {
		found, hasSchema := c.check(o)
		if !hasSchema {
			report.Unchecked[o.GroupVersionKind().GroupKind().String()]++
		}
		slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(a.Field, b.Field) })
		report.Findings = append(report.Findings, found...)
	}
	return report
}

// checker is one check. It belongs to one goroutine.
type checker struct {
	at          kubeapi.Version
	own         ownSchemas
	definitions definitions
}

// check returns the defects of an object. It returns false if there is no schema of its kind.
func (c *checker) check(o render.Object) (found []Finding, hasSchema bool) {
	gvk := o.GroupVersionKind()
	api := kubeapi.Look(gvk, c.at)
	if finding, bad := c.lifecycle(o, api); bad {
		found = append(found, finding)
	}
	switch api.State {
	case kubeapi.Unknown:
		more, known := c.definitions.check(o)
		return append(found, more...), known
	case kubeapi.Absent:
		return found, true
	default:
		return append(found, c.own.check(o)...), true
	}
}

// lifecycle returns the findings about the object's API.
func (c *checker) lifecycle(o render.Object, api kubeapi.API) (Finding, bool) {
	name := describe(o.GroupVersionKind())
	finding := findingOf(o, "apiVersion", "")
	switch api.State {
	case kubeapi.Absent:
		finding.Message = fmt.Sprintf("Kubernetes %s has no %s", c.at, name)
	case kubeapi.Removed:
		finding.Message = fmt.Sprintf("%s was removed in Kubernetes %s%s", name, api.Removed, instead(api))
	case kubeapi.Future:
		finding.Message = fmt.Sprintf("%s came with Kubernetes %s", name, api.Introduced)
	case kubeapi.Deprecated:
		finding.Severity = Warning
		finding.Message = fmt.Sprintf("%s is deprecated since Kubernetes %s", name, api.Deprecated)
		if !api.Removed.IsZero() {
			finding.Message += fmt.Sprintf(", and removed in %s", api.Removed)
		}
		finding.Message += instead(api)
	case kubeapi.Optional:
		finding.Severity = Warning
		finding.Message = fmt.Sprintf("%s is off in clusters unless their operator turns it on", name)
	default:
		return Finding{}, false
	}
	return finding, true
}

func instead(api kubeapi.API) string {
	if api.Replacement.Empty() {
		return ""
	}
	return "; use " + describe(api.Replacement)
}

func describe(gvk schema.GroupVersionKind) string {
	return gvk.GroupVersion().String() + " " + gvk.Kind
}

// findingOf returns an error about an object.
func findingOf(o render.Object, field, message string) Finding {
	return Finding{
		Severity: Error, Path: o.Path, Document: o.Document, APIVersion: o.GetAPIVersion(), Kind: o.GetKind(),
		Namespace: o.GetNamespace(), Name: cmp.Or(o.GetName(), o.GetGenerateName()), Field: field, Message: message,
	}
}
