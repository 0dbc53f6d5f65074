// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeapi knows which APIs the versions of Kubernetes have, without asking a cluster: from
// the lifecycles in the Go types of Kubernetes' own APIs, which this program links.
//
// It knows APIs that were removed before Newest, and APIs that were added until then. It does not
// know in which version a single field came.
package kubeapi

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Version is a minor version of Kubernetes, such as 1.36. The zero Version is unknown.
type Version struct{ Major, Minor int }

// Newest is the version whose types this program links.
var Newest = Version{Major: 1, Minor: 36}

// lastOpenBeta is the version since which new beta APIs are off unless an operator of the cluster
// turns them on (KEP-3136).
var lastOpenBeta = Version{Major: 1, Minor: 24}

var versionForm = regexp.MustCompile(`^v?(\d{1,4})\.(\d{1,4})(\.\d{1,9}([-+][0-9A-Za-z.+-]*)?)?$`)

// ParseVersion reads a version as people and API servers write it: 1.36, v1.36.1 or v1.36.1-eks-1.
func ParseVersion(text string) (Version, error) {
	parts := versionForm.FindStringSubmatch(text)
	if parts == nil {
		return Version{}, fmt.Errorf("%q is not a version of Kubernetes, such as %s", text, Newest)
	}
	major, majorErr := strconv.Atoi(parts[1])
	minor, minorErr := strconv.Atoi(parts[2])
	return Version{Major: major, Minor: minor}, cmp.Or(majorErr, minorErr)
}

// String implements fmt.Stringer.
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// IsZero reports whether v is no version.
func (v Version) IsZero() bool { return v == Version{} }

// Compare returns a negative number if v is older than w, zero if they are equal, else a positive
// one.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor))
}

// reached reports whether v is a version, and not newer than at.
func (v Version) reached(at Version) bool { return !v.IsZero() && v.Compare(at) <= 0 }

// State is how a version of Kubernetes treats an API.
type State int

// The states.
const (
	// Unknown is for APIs that do not belong to Kubernetes itself, or are newer than Newest.
	Unknown State = iota
	// Absent is for APIs that Kubernetes' own groups do not have in any version that is known.
	Absent
	// Future is for APIs that came later.
	Future
	// Served is for APIs that every cluster has.
	Served
	// Optional is for alpha and beta versions that are off by default.
	Optional
	// Deprecated is for APIs that are served, and will be removed.
	Deprecated
	// Removed is for APIs that are no longer served.
	Removed
)

// API describes an API in one version of Kubernetes.
type API struct {
	State State
	// Introduced, Deprecated and Removed are the versions when that happened, or will. Zero: unknown,
	// or never.
	Introduced, Deprecated, Removed Version
	// Replacement is the API to use instead. Empty: the API has no replacement.
	Replacement schema.GroupVersionKind
}

// Look returns the description of an API in a version of Kubernetes.
func Look(gvk schema.GroupVersionKind, at Version) API {
	api, known := lifecycleOf(gvk)
	switch {
	case !known && (at.Compare(Newest) > 0 || !IsOwnGroup(gvk.Group)):
		return API{}
	case !known:
		api.State = Absent
	case api.Removed.reached(at):
		api.State = Removed
	case !api.Introduced.IsZero() && !api.Introduced.reached(at):
		api.State = Future
	case isOff(gvk.Version, api.Introduced):
		api.State = Optional
	case api.Deprecated.reached(at):
		api.State = Deprecated
	default:
		api.State = Served
	}
	return api
}

// isOff reports whether clusters serve the API only if their operator asks for it.
func isOff(version string, introduced Version) bool {
	return strings.Contains(version, "alpha") ||
		strings.Contains(version, "beta") && introduced.Compare(lastOpenBeta) >= 0
}

// IsOwnGroup reports whether the group belongs to Kubernetes itself.
func IsOwnGroup(group string) bool {
	return scheme.Scheme.IsGroupRegistered(group) || group == apiExtensions || group == apiRegistration
}

// Names returns what an API server of that version serves by default, as templates ask for it:
// "apps/v1" and "apps/v1/Deployment", sorted.
func Names(at Version) []string {
	names := map[string]bool{}
	add := func(gvk schema.GroupVersionKind) {
		if state := Look(gvk, at).State; state == Served || state == Deprecated {
			names[gvk.GroupVersion().String()] = true
			names[gvk.GroupVersion().String()+"/"+gvk.Kind] = true
		}
	}
	for gvk := range scheme.Scheme.AllKnownTypes() {
		if object, err := scheme.Scheme.New(gvk); err == nil {
			if _, hasMetadata := object.(metav1.Object); hasMetadata && gvk.Version != "__internal" {
				add(gvk)
			}
		}
	}
	for gvk := range others() {
		add(gvk)
	}
	sorted := make([]string, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return sorted
}
