// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/overview"
)

// nodeOf reads the counted fields of a Node. A missing or malformed field counts as zero.
func nodeOf(o *unstructured.Unstructured) overview.Node {
	n := overview.Node{Capacity: resourcesOf(o, "capacity"), Allocatable: resourcesOf(o, "allocatable")}
	n.Cordoned, _, _ = unstructured.NestedBool(o.Object, "spec", "unschedulable")
	n.Kubelet, _, _ = unstructured.NestedString(o.Object, "status", "nodeInfo", "kubeletVersion")
	n.Ready = isTrue(o, "Ready")
	// The version of most clusters shows where they run; AKS's does not.
	if _, isAKS := o.GetLabels()["kubernetes.azure.com/cluster"]; isAKS {
		n.Provider = "aks"
	}
	return n
}

// isTrue reports whether an object has a condition whose status is True.
func isTrue(o *unstructured.Unstructured, condition string) bool {
	conditions, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "conditions")
	list, _ := conditions.([]any)
	return slices.ContainsFunc(list, func(item any) bool {
		c, _ := item.(map[string]any)
		return c["type"] == condition && c["status"] == "True"
	})
}

func resourcesOf(o *unstructured.Unstructured, field string) overview.Resources {
	quantity := func(name string) resource.Quantity {
		text, _, _ := unstructured.NestedString(o.Object, "status", field, name)
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return resource.Quantity{}
		}
		return q
	}
	cpu, memory, pods := quantity("cpu"), quantity("memory"), quantity("pods")
	return overview.Resources{CPUMillis: cpu.MilliValue(), MemoryBytes: memory.Value(), Pods: pods.Value()}
}

// warningOf reads an Event of any client version: events of a series hold their number and time in
// other fields.
func warningOf(o *unstructured.Unstructured) overview.Warning {
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(o.Object, path...)
		return value
	}
	w := overview.Warning{
		Reason: text("reason"), Kind: text("involvedObject", "kind"), Namespace: text("involvedObject", "namespace"),
		Name: text("involvedObject", "name"), Message: text("message"), Times: 1, LastSeen: o.GetCreationTimestamp().Time,
	}
	for _, path := range [][]string{{"count"}, {"series", "count"}} {
		count, _, _ := unstructured.NestedInt64(o.Object, path...)
		w.Times = max(w.Times, int(count))
	}
	for _, path := range [][]string{{"firstTimestamp"}, {"eventTime"}, {"lastTimestamp"}, {"series", "lastObservedTime"}} {
		if at, err := time.Parse(time.RFC3339, text(path...)); err == nil && at.After(w.LastSeen) {
			w.LastSeen = at
		}
	}
	return w
}
