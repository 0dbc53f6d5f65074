// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/clusterref"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

const (
	// MaxHubHops bounds the sets that one reference leads through.
	MaxHubHops = 8
	// maxFactBytes bounds the value of a fact in a reference.
	maxFactBytes = 253
	hubPrefix    = "hub" + referenceSeparator
)

// Names of facts. Facts of labels and annotations continue with a key.
const (
	factProject           = "project"
	factService           = "service.name"
	factCluster           = "cluster.name"
	factClusterProject    = "cluster.project"
	factClusterLabel      = "cluster.labels."
	factClusterAnnotation = "cluster.annotations."
)

// ConfigFacts are the facts that references of a service may hold. People who may label a cluster
// decide the values, so no value may lead elsewhere than one element, or a part of one.
type ConfigFacts struct {
	// Project and Service are the service's, and Cluster and ClusterProject its cluster's.
	Project, Service        string
	Cluster, ClusterProject string
	Labels, Annotations     map[string]string
}

// FactError is why a fact cannot be part of a reference. It does not repeat the value.
type FactError struct {
	Fact string
	// IsMissing means that the cluster has no such label or annotation.
	IsMissing bool
	Why       string
}

// Error implements error.
func (e *FactError) Error() string { return fmt.Sprintf("${%s} %s", e.Fact, e.Why) }

// HasFacts reports whether the text of a reference holds facts.
func HasFacts(text string) bool { return strings.Contains(text, "${") }

// IsOptional reports whether the text of a reference lets the value be missing.
func IsOptional(text string) bool { return strings.HasSuffix(text, "?") }

// Expand returns the text of a reference with values in the place of facts. The back end's name is
// never expanded. The result has still to be parsed, and compared with what a back end allows.
// Error: *FactError.
func (f ConfigFacts) Expand(text string) (string, error) { return eachFact(text, f.value) }

// FactNames returns the names of the facts that the text of a reference holds, in their order.
func FactNames(text string) []string {
	var names []string
	// An error ends the text for Expand, too.
	_, _ = eachFact(text, func(name string) (string, error) {
		names = append(names, name)
		return "", nil
	})
	return names
}

// Lookup returns the value of a fact, whether or not it may be part of a reference. It reports
// false for a label or an annotation that the cluster does not have.
func (f ConfigFacts) Lookup(name string) (value string, ok bool) {
	if key, isLabel := strings.CutPrefix(name, factClusterLabel); isLabel {
		value, ok = f.Labels[key]
		return value, ok
	}
	if key, isAnnotation := strings.CutPrefix(name, factClusterAnnotation); isAnnotation {
		value, ok = f.Annotations[key]
		return value, ok
	}
	switch name {
	case factProject:
		value = f.Project
	case factService:
		value = f.Service
	case factCluster:
		value = f.Cluster
	case factClusterProject:
		value = f.ClusterProject
	}
	return value, true
}

// withoutFacts returns the text of a reference with one letter in the place of each fact, for checks
// that do not depend on values.
func withoutFacts(text string) string { return replaceFacts(text, "x") }

// replaceFacts returns the text of a reference with a letter in the place of each fact.
func replaceFacts(text, letter string) string {
	expanded, err := eachFact(text, func(string) (string, error) { return letter, nil })
	if err != nil {
		return text
	}
	return expanded
}

func eachFact(text string, valueOf func(name string) (string, error)) (string, error) {
	backend, rest, ok := strings.Cut(text, referenceSeparator)
	if !ok {
		return text, nil
	}
	var b strings.Builder
	b.WriteString(backend + referenceSeparator)
	for {
		before, after, found := strings.Cut(rest, "${")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, behind, isClosed := strings.Cut(after, "}")
		if !isClosed {
			return "", &FactError{Fact: shortText(after), Why: "is not closed"}
		}
		if !isFact(name) {
			return "", &FactError{Fact: shortText(name), Why: "is not a fact; use project, service.name, cluster.name, cluster.project, cluster.labels.KEY or cluster.annotations.KEY"}
		}
		value, err := valueOf(name)
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		rest = behind
	}
}

func isFact(name string) bool {
	if slices.Contains([]string{factProject, factService, factCluster, factClusterProject}, name) {
		return true
	}
	_, isLabel := strings.CutPrefix(name, factClusterLabel)
	_, isAnnotation := strings.CutPrefix(name, factClusterAnnotation)
	return (isLabel || isAnnotation) && !strings.HasSuffix(name, ".")
}

// value returns the value of a fact, if it may be part of a path.
func (f ConfigFacts) value(name string) (string, error) {
	value, isThere := f.Lookup(name)
	switch {
	case !isThere:
		return "", &FactError{Fact: name, IsMissing: true, Why: f.missing(name)}
	case value == "" || len(value) > maxFactBytes:
		return "", &FactError{Fact: name, Why: fmt.Sprintf("has a value of %d bytes; from 1 to %d are allowed in a reference", len(value), maxFactBytes)}
	case value == "." || value == ".." || strings.ContainsFunc(value, isNotFactRune):
		return "", &FactError{Fact: name, Why: "has a value that is not allowed in a reference: only letters, digits, '-', '_' and '.' are, and not . or .. alone"}
	}
	return value, nil
}

// missing returns why the cluster has no such label or annotation. The text is the same whether
// the cluster has no such annotation or its project does not share it.
func (f ConfigFacts) missing(name string) string {
	if f.Project != f.ClusterProject && strings.HasPrefix(name, factClusterAnnotation) {
		return fmt.Sprintf("is not set at the service's cluster, or project %q does not share it: a share lists it in cluster_annotations", f.ClusterProject)
	}
	return "is not set at the service's cluster"
}

func isNotFactRune(r rune) bool {
	isAllowed := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
	return !isAllowed
}

func shortText(text string) string { return text[:min(len(text), 80)] }

// HubReference names a key of a set.
type HubReference struct {
	// Set is the path of the set.
	Set string
	Key string
	// Optional lets the value be missing.
	Optional bool
}

// IsHubReference reports whether the text of a reference names a key of a set.
func IsHubReference(text string) bool { return strings.HasPrefix(text, hubPrefix) }

// ParseHubReference reads the text of a reference to a set without facts: hub://SET/KEY, or
// hub://PROJECT/SET/KEY. The project is by default the document's own.
func ParseHubReference(text, project string) (HubReference, error) {
	place, optional := strings.CutSuffix(strings.TrimPrefix(text, hubPrefix), "?")
	i := strings.LastIndexByte(place, '/')
	if !IsHubReference(text) || len(text) > maxReferenceBytes || i < 0 || strings.Count(place, "/") > 2 {
		return HubReference{}, fielderr.New("", "%.80q does not name a key of a set; write hub://SET/KEY or hub://PROJECT/SET/KEY", text)
	}
	set, key := place[:i], place[i+1:]
	path, err := objectname.Parse("", set, project)
	if err != nil || objectname.Validate("", path) != nil {
		return HubReference{}, fielderr.New("", "%.80q is not the name of a set", set)
	}
	if validatePair("", key, "") != nil {
		return HubReference{}, fielderr.New("", "%.80q is not a key of a set", key)
	}
	return HubReference{Set: path, Key: key, Optional: optional}, nil
}

// checkReferenceText checks the text of a reference as far as it depends on nothing else. The text of
// the error follows the name of a field.
func checkReferenceText(text string) error {
	if len(text) > maxReferenceBytes {
		_, err := ParseReference(text)
		return err
	}
	if clusterref.Is(text) {
		_, err := ParseReference(text) // which holds no facts
		return err
	}
	plain, err := eachFact(text, func(string) (string, error) { return "x", nil })
	if err != nil {
		return fielderr.New("", "%v", err)
	}
	if !IsHubReference(plain) {
		_, err = ParseReference(plain)
		return err
	}
	reference, err := ParseHubReference(plain, objectname.Default)
	if err != nil || !HasFacts(text) {
		return err
	}
	// The permission to use a set depends on its project, so that is the same in every cluster.
	other, err := eachFact(text, func(string) (string, error) { return "y", nil })
	if err != nil {
		return err
	}
	again, err := ParseHubReference(other, objectname.Default)
	if err == nil && objectname.Project(again.Set) != objectname.Project(reference.Set) {
		return fielderr.New("", "%.80q has a fact in the name of a project; write the project out", text)
	}
	return err
}

// ReferenceChainError means that references to sets lead from one to the next without an end in sight.
type ReferenceChainError struct {
	// At is the reference that leads too far.
	At string
	// IsCircle means that the references lead to one of them again; otherwise there are more than
	// MaxHubHops.
	IsCircle bool
}

// Error implements error.
func (e *ReferenceChainError) Error() string {
	if e.IsCircle {
		return fmt.Sprintf("leads in a circle, at %s", e.At)
	}
	return fmt.Sprintf("leads through more than %d sets, at %s", MaxHubHops, e.At)
}
