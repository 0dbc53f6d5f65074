// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Annotations that exclude an object from the verdict on its service: it counts as healthy once it
// exists.
const (
	// IgnoreAnnotation is Leat's; its value is "ignore".
	IgnoreAnnotation = "leat.dev/health"
	// argoIgnoreAnnotation is Argo CD's, which many manifests carry already; its value is "true".
	argoIgnoreAnnotation = "argocd.argoproj.io/ignore-healthcheck"
)

// Judge returns the verdict on a live object. The first of the given rules that covers its kind
// decides, or else the package's own knowledge. Judge only reads the object, never fails, and is
// safe for concurrent use.
func (l *Library) Judge(o *unstructured.Unstructured, rules ...*Rules) Verdict {
	if at(o.Object, "metadata", "deletionTimestamp") != nil {
		return Verdict{State: Terminating, Message: whatHolds(o.Object)}
	}
	if isIgnored(o.Object) {
		return Verdict{State: Healthy}
	}
	group, kind := groupKind(o.Object)
	for _, r := range rules {
		if rule := r.find(group, kind); rule != nil {
			return orUnobserved(o.Object, rule.judge)
		}
	}
	if judge := coreKind(group, kind); judge != nil {
		return orUnobserved(o.Object, judge)
	}
	judge := conventional
	if rule := l.find(group, kind); rule != nil {
		judge = rule.judge
	}
	return suspendedVerdict(suspension(o.Object), orUnobserved(o.Object, judge))
}

// suspendedVerdict changes the verdict on a suspended object. Its controller is idle, so the object
// makes no progress: it is in the state that its owner wants.
func suspendedVerdict(how string, v Verdict) Verdict {
	switch {
	case how == "":
		return v
	case v.State == Progressing:
		return Verdict{State: Healthy, Message: how}
	case v.Message == "":
		return Verdict{State: v.State, Message: how}
	default:
		return Verdict{State: v.State, Message: how + "; " + v.Message}
	}
}

func isIgnored(o object) bool {
	annotations, _ := at(o, "metadata", "annotations").(object)
	return annotations[IgnoreAnnotation] == "ignore" || annotations[argoIgnoreAnnotation] == "true"
}

// suspension describes how its owner suspended the object, or returns "" if it is not suspended.
func suspension(o object) string {
	switch {
	case flag(o, "spec", "suspend"), flag(o, "spec", "suspended"):
		return "is suspended"
	case flag(o, "spec", "paused"):
		return "is paused"
	}
	annotations, _ := at(o, "metadata", "annotations").(object)
	for _, name := range [...]string{
		"crossplane.io/paused", "strimzi.io/pause-reconciliation", "autoscaling.keda.sh/paused", "cluster.x-k8s.io/paused",
	} {
		if value, ok := annotations[name]; ok && value != "false" {
			return "is paused by the annotation " + name
		}
	}
	return ""
}

// orUnobserved judges an object only after its controller has observed the newest generation.
// Before that the status describes an older one. Only a smaller generation counts as older: a
// status that was restored from a backup can stay ahead of it permanently.
func orUnobserved(o object, judge func(object) Verdict) Verdict {
	generation, _ := number(o, "metadata", "generation")
	observed, ok := number(o, "status", "observedGeneration")
	if !ok || observed >= generation {
		return judge(o)
	}
	return Verdict{
		State:   Progressing,
		Message: fmt.Sprintf("its controller has seen generation %d, the newest is %d", observed, generation),
	}
}

// conventional judges by the conditions that controllers share. Stalled and Reconciling come first,
// and Ready second. An object without these conditions is healthy once it exists.
func conventional(o object) Verdict {
	if c := conditionOf(o, "Reconciling"); c.status == isTrue {
		return Verdict{State: Progressing, Message: cmp.Or(c.say(), "is being reconciled")}
	}
	if c := conditionOf(o, "Stalled"); c.status == isTrue {
		return Verdict{State: Degraded, Message: cmp.Or(c.say(), "has stalled")}
	}
	if c := conditionOf(o, "Ready"); c.status == isFalse || c.status == isUnknown {
		return Verdict{State: Progressing, Message: cmp.Or(c.say(), "is not ready")}
	}
	return Verdict{State: Healthy}
}

// whatHolds describes what a deletion waits for.
func whatHolds(o object) string {
	if group, kind := groupKind(o); group == "" && kind == "Namespace" {
		if held := namespaceHeld(o); held != "" {
			return "is being deleted; " + held
		}
	}
	finalizers, _ := at(o, "metadata", "finalizers").([]any)
	if len(finalizers) == 0 {
		return "is being deleted"
	}
	names := make([]string, 0, len(finalizers))
	for _, name := range finalizers {
		names = append(names, fmt.Sprint(name))
	}
	return "is being deleted, and waits for the removal of " +
		plural(len(names), "the finalizer ", "the finalizers ") + strings.Join(names, ", ")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// groupKind returns the object's group and kind without the allocations of a
// schema.GroupVersionKind.
func groupKind(o object) (group, kind string) {
	version, _ := o["apiVersion"].(string)
	kind, _ = o["kind"].(string)
	group, _, found := strings.Cut(version, "/")
	if !found {
		group = ""
	}
	return group, kind
}
