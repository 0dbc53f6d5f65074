// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package order

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/renderstep"
)

// Choice is yes, no, or unsaid.
type Choice int

// The choices.
const (
	Unsaid Choice = iota
	Yes
	No
)

// Or returns the choice, or otherwise if it is unsaid.
func (c Choice) Or(otherwise bool) bool {
	if c == Unsaid {
		return otherwise
	}
	return c == Yes
}

// Recreate returns whether an object is to be deleted and created again after a change of a field
// that cannot be changed. It also checks the other annotations about how the object is treated.
// Errors are of type *Error.
func Recreate(o *unstructured.Unstructured) (Choice, error) {
	r := reader{object: o, annotations: o.GetAnnotations()}
	if policy, ok := r.annotations[HelmResourcePolicy]; ok && !strings.EqualFold(strings.TrimSpace(policy), "keep") {
		return Unsaid, r.errorf(HelmResourcePolicy, "is %q, want keep", policy)
	}
	choice := Unsaid
	for _, annotation := range []string{ArgoSyncOptions, LeatSyncOptions} {
		said, err := r.options(annotation)
		if err != nil {
			return Unsaid, err
		}
		choice = max(choice, said)
	}
	switch word, ok := r.annotations[LeatRecreate]; {
	case word == "enabled":
		return Yes, nil
	case word == "disabled":
		return No, nil
	case ok:
		return Unsaid, r.errorf(LeatRecreate, "is %q, want enabled or disabled", word)
	}
	return choice, nil
}

// IsCreatedOnly reports whether the service only creates the object where it is missing, and then
// leaves it to others: it is not listed in the inventory, watched, changed or deleted.
func IsCreatedOnly(o *unstructured.Unstructured) bool {
	return o.GetAnnotations()[LeatUpdate] == renderstep.UpdateDisabled
}

// options reads a list of options. The inventory follows those about pruning.
func (r reader) options(annotation string) (choice Choice, err error) {
	text, ok := r.annotations[annotation]
	if !ok {
		return Unsaid, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		switch word {
		case "", "Prune=false", "Prune=confirm", "Delete=false", "Delete=confirm":
		case "Force=true":
			choice = Yes
		default:
			if annotation != ArgoSyncOptions || !isNeedless(word) {
				return Unsaid, r.errorf(annotation, "holds the unknown option %q", word)
			}
		}
	}
	return choice, nil
}

// isNeedless reports whether an option of Argo CD asks for what Leat does anyway, or how Argo CD is
// to do it.
func isNeedless(word string) bool {
	option, _, _ := strings.Cut(word, "=")
	return slices.Contains([]string{
		"ApplyOutOfSyncOnly", "ClientSideApplyMigration", "CreateNamespace", "Delete", "FailOnSharedResource", "Force", "Prune", "PruneLast",
		"PrunePropagationPolicy", "Replace", "RespectIgnoreDifferences", "ServerSideApply", "SkipDryRunOnMissingResource", "Validate",
	}, option)
}
