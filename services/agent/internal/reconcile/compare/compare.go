// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package compare describes the differences between two states of an object for people. It masks
// the values of Secrets, and values that contain a secret of a service's configuration, in objects
// of any kind.
package compare

import (
	"fmt"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// Secrets defines the texts that a comparison must mask.
type Secrets struct {
	// Substitution holds the secrets of the configuration. Nil: the service has no configuration.
	Substitution *render.Substitution
	// IsStale means that another configuration was applied last. Its secrets are unknown, so only
	// texts of the desired object are shown.
	IsStale bool
}

const (
	// maxCompared bounds the lines between the first and the last difference. The time of a
	// comparison can grow with their square, and a comparison cannot be interrupted.
	maxCompared = 10_000
	uncompared  = "--- live\n+++ desired\n@@ more lines may differ than are compared @@"
	// contextLines is the number of equal lines around each difference.
	contextLines = 3
)

// Unified returns a unified diff of the YAML of two states of an object, or "" if they do not
// differ. A nil object does not exist. It masks secrets in both objects, which belong to it.
func Unified(before, after *unstructured.Unstructured, secrets Secrets) (string, error) {
	return unified(before, after, newMasker(secrets, before, after))
}

// unified is Unified with a masker for both objects.
func unified(before, after *unstructured.Unstructured, m *masker) (string, error) {
	maskSecret(before, after)
	m.maskObject(before)
	m.maskObject(after)
	from, err := yamlOf(before)
	if err != nil {
		return "", err
	}
	to, err := yamlOf(after)
	if err != nil || from == to {
		return "", err
	}
	a, b := splitLines(from), splitLines(to)
	if isTooLong(a, b) {
		return fmt.Sprintf("%s\n-%d lines\n+%d lines\n", uncompared, len(a), len(b)), nil
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: a, B: b, FromFile: "live", ToFile: "desired", Context: contextLines,
	})
	if err != nil {
		return "", fmt.Errorf("compare texts: %w", err)
	}
	return text, nil
}

// Details are the differences between two states of an object, by field.
type Details struct {
	// Fields would change, and Ignored are left to others. Omitted and IgnoredOmitted count what is beyond their
	// bounds.
	Fields, Ignored         []fields.Difference
	Omitted, IgnoredOmitted int
}

// Explain returns the unified diff of two states of an object, as Unified does, and its details, in which the same
// texts are masked. Manifest is what a person wants of the object; its fields that ignored names are left to others.
func Explain(before, after, manifest *unstructured.Unstructured, ignored fields.Ignored, secrets Secrets) (string, Details, error) {
	// A mask hides by which rule a field is ignored, and who owns an item. So owners and rules are read before
	// that, and values after.
	owned, m := fields.OwnershipOf(before, after), newMasker(secrets, before, after)
	live, masked := before.DeepCopy(), manifest.DeepCopy()
	manifest = manifest.DeepCopy() // it may be the object after the change
	text, err := unified(before, after, m)
	if err != nil {
		return "", Details{}, err
	}
	var d Details
	if text != "" {
		d.Fields, d.Omitted = owned.Differences(before, after)
	}
	if !ignored.Empty() {
		maskSecret(live, masked)
		m.maskObject(live)
		m.maskObject(masked)
		d.Ignored, d.IgnoredOmitted = owned.Ignored(ignored, manifest, live, masked)
	}
	return text, d, nil
}

// Fields returns the fields that differ, at most report.MaxDriftFields. It masks the values of
// confidential objects.
func Fields(live, wanted *unstructured.Unstructured, isConfidential bool) []fields.Change {
	changes := fields.Compare(live, wanted)
	changes = changes[:min(len(changes), report.MaxDriftFields)]
	if !isConfidential {
		return changes
	}
	for i := range changes {
		changes[i].Old, changes[i].New = maskText(changes[i].Old), maskText(changes[i].New)
	}
	return changes
}

// isTooLong reports whether both texts have more than maxCompared lines between their first and
// last difference.
func isTooLong(a, b []string) bool {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return min(len(a), len(b)) > maxCompared
}

func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	return difflib.SplitLines(strings.TrimSuffix(text, "\n"))
}

// yamlOf returns the YAML of an object without the fields that the API server manages.
func yamlOf(o *unstructured.Unstructured) (string, error) {
	if o == nil {
		return "", nil
	}
	o = o.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(o.Object, "status")
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		return "", fmt.Errorf("write YAML: %w", err)
	}
	return string(text), nil
}
