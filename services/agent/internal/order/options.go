// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package order

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Options are what annotations say about an object beside its place. The zero Options are those of an object without any.
type Options struct {
	// KeepPruned leaves the object in the cluster when it leaves the manifests.
	KeepPruned bool
	// KeepDeleted leaves the object in the cluster when the service goes.
	KeepDeleted bool
	// Recreate says whether to delete the object and make it anew where a field changed that cannot be changed.
	Recreate Choice
}

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

// OptionsOf reads the options of an object, which may be a manifest or a live object. Errors: *Error.
func OptionsOf(o *unstructured.Unstructured) (Options, error) {
	r := reader{object: o, annotations: o.GetAnnotations()}
	var options Options
	if policy, ok := r.annotations[HelmResourcePolicy]; ok {
		if policy != "keep" {
			return Options{}, r.errorf(HelmResourcePolicy, "is %q, want keep", policy)
		}
		options.KeepPruned, options.KeepDeleted = true, true
	}
	for _, annotation := range []string{ArgoSyncOptions, LeatSyncOptions} {
		if err := r.options(annotation, &options); err != nil {
			return Options{}, err
		}
	}
	switch choice, ok := r.annotations[LeatRecreate]; {
	case choice == "enabled":
		options.Recreate = Yes
	case choice == "disabled":
		options.Recreate = No
	case ok:
		return Options{}, r.errorf(LeatRecreate, "is %q, want enabled or disabled", choice)
	}
	return options, nil
}

func (r reader) options(annotation string, options *Options) error {
	text, ok := r.annotations[annotation]
	if !ok {
		return nil
	}
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		switch word {
		case "":
		case "Prune=false", "Prune=confirm": // nobody is asked for a single object, so it stays
			options.KeepPruned = true
		case "Delete=false", "Delete=confirm":
			options.KeepDeleted = true
		case "Force=true":
			options.Recreate = Yes
		default:
			if annotation != ArgoSyncOptions || !needless(word) {
				return r.errorf(annotation, "holds %q, which Leat does not know", word)
			}
		}
	}
	return nil
}

// needless tells options of Argo CD that ask for what Leat does anyway, or that say how Argo CD is to do it.
func needless(word string) bool {
	option, _, _ := strings.Cut(word, "=")
	return slices.Contains([]string{
		"ApplyOutOfSyncOnly", "ClientSideApplyMigration", "CreateNamespace", "Delete", "FailOnSharedResource", "Force", "Prune", "PruneLast",
		"PrunePropagationPolicy", "Replace", "RespectIgnoreDifferences", "ServerSideApply", "SkipDryRunOnMissingResource", "Validate",
	}, option)
}
