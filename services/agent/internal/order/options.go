// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package order

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Choice is yes, no, or left to somebody else.
type Choice int

// The choices.
const (
	Unsaid Choice = iota
	Yes
	No
)

// Or is the choice, or what somebody else says where there is none.
func (c Choice) Or(otherwise bool) bool {
	if c == Unsaid {
		return otherwise
	}
	return c == Yes
}

// Recreate reads whether an object is to be deleted and made anew where a field changed that cannot be changed. It checks what else
// annotations say about how the object is treated, too. Errors: *Error.
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

// options reads a list of options. Those about pruning are for the inventory to follow.
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
			if annotation != ArgoSyncOptions || !needless(word) {
				return Unsaid, r.errorf(annotation, "holds %q, which Leat does not know", word)
			}
		}
	}
	return choice, nil
}

// needless tells options of Argo CD that ask for what Leat does anyway, or that say how Argo CD is to do it.
func needless(word string) bool {
	option, _, _ := strings.Cut(word, "=")
	return slices.Contains([]string{
		"ApplyOutOfSyncOnly", "ClientSideApplyMigration", "CreateNamespace", "Delete", "FailOnSharedResource", "Force", "Prune", "PruneLast",
		"PrunePropagationPolicy", "Replace", "RespectIgnoreDifferences", "ServerSideApply", "SkipDryRunOnMissingResource", "Validate",
	}, option)
}
