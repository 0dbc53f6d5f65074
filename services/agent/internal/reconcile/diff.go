// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/render"
	"github.com/leatdev/leat/services/agent/internal/report"
)

type differ struct {
	cluster k8s.API
	run     *run // the one that would do it, and changes nothing
	service plan.Service
	desired inventory.Set
	found   []report.Difference

	substitution *render.Substitution
	stale        bool // another configuration was applied last
}

func (d *differ) object(ctx context.Context, o *unstructured.Unstructured) error {
	full, err := complete(ctx, d.cluster, d.service, o)
	if rejected := new(reason.Problem); errors.As(err, &rejected) && rejected.Reason == reason.ApplyRejected {
		full, err = o, nil // of a kind that does not exist yet
	}
	if err != nil {
		return err
	}
	ref := inventory.RefOf(full)
	d.desired.Put(inventory.Object{Ref: ref})
	live, err := d.cluster.Get(ctx, ref)
	if errors.Is(err, k8s.ErrNotFound) {
		return d.add(ref, report.Create, nil, full)
	}
	if err != nil {
		return err
	}
	after, err := d.after(ctx, full, live)
	if err != nil {
		return err
	}
	return d.add(ref, report.Update, live, after)
}

func (d *differ) pruned(ctx context.Context, objects inventory.Set) error {
	if !d.service.Spec.Prune {
		return nil
	}
	for _, o := range objects.Minus(d.desired) {
		live, err := d.cluster.Get(ctx, o.Ref)
		if errors.Is(err, k8s.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if !inventory.Deletable(o.Key, o.Wish.And(inventory.WishOf(live.GetAnnotations())), d.service.Spec.Policy.Deletion) {
			continue
		}
		if err := d.add(o.Ref, report.Delete, live, nil); err != nil {
			return err
		}
	}
	return nil
}

// add notes a difference, if there is one.
func (d *differ) add(ref inventory.Ref, change report.Change, before, after *unstructured.Unstructured) error {
	mask(before, after)
	v := newVeil(d.substitution, d.stale, before, after)
	v.cover(before)
	v.cover(after)
	from, err := legible(before)
	if err != nil {
		return err
	}
	to, err := legible(after)
	if err != nil {
		return err
	}
	if from == to {
		return nil
	}
	const context = 3
	a, b := lines(from), lines(to)
	if tooMany(a, b) {
		d.found = append(d.found, report.Difference{Ref: ref, Change: change, Unified: fmt.Sprintf("%s\n-%d lines\n+%d lines\n", uncompared, len(a), len(b))})
		return nil
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: a, B: b, FromFile: "live", ToFile: "desired", Context: context})
	if err != nil {
		return fmt.Errorf("compare texts: %w", err)
	}
	d.found = append(d.found, report.Difference{Ref: ref, Change: change, Unified: text})
	return nil
}

const (
	// maxCompared bounds the lines between the first and the last difference. The time of a comparison can grow with
	// their square, and a comparison cannot be interrupted.
	maxCompared = 10_000
	uncompared  = "--- live\n+++ desired\n@@ more lines may differ than are compared @@"
)

// tooMany reports whether both texts have more than maxCompared lines between their first and last difference.
func tooMany(a, b []string) bool {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return min(len(a), len(b)) > maxCompared
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return difflib.SplitLines(strings.TrimSuffix(text, "\n"))
}

// legible is the YAML of an object without what the API server keeps for itself.
func legible(o *unstructured.Unstructured) (string, error) {
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

// mask replaces the values of Secrets. Equal values get equal masks and others different ones, so that the diff shows
// which key changes and nothing of what it holds, its length included.
func mask(before, after *unstructured.Unstructured) {
	for _, field := range []string{"data", "stringData"} {
		old, fresh := values(before, field), values(after, field)
		for key, value := range old {
			if other, ok := fresh[key]; ok && other != value {
				fresh[key] = "(masked, changed)"
			} else if ok {
				fresh[key] = "(masked)"
			}
			old[key] = "(masked)"
		}
		for key := range fresh {
			if _, known := old[key]; !known {
				fresh[key] = "(masked)"
			}
		}
	}
	for _, o := range []*unstructured.Unstructured{before, after} {
		if isSecret(o) {
			unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
		}
	}
}

// values returns a Secret's own map of values, nil for other objects.
func values(o *unstructured.Unstructured, field string) map[string]any {
	if !isSecret(o) {
		return nil
	}
	found, _ := o.Object[field].(map[string]any)
	return found
}

func isSecret(o *unstructured.Unstructured) bool {
	return o != nil && o.GetKind() == "Secret" && o.GroupVersionKind().Group == ""
}
