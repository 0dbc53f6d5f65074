// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// Metric is one of the questions.
type Metric int

// The metrics.
const (
	CPU Metric = iota + 1
	CPURequest
	CPULimit
	CPUThrottled
	Memory
	MemoryRequest
	MemoryLimit
	Restarts
	NetworkReceived
	NetworkSent
)

const (
	// maxWorkloads bounds an expression. Workloads beyond it are left out.
	maxWorkloads = 200
	// minRate is the shortest time over which a rate is taken: it holds a few scrapes.
	minRate = 5 * time.Minute
	// maxBase is how much of its owner's name Kubernetes keeps in the name of a pod.
	maxBase = 58
	// The letters that Kubernetes makes up names of. They have no vowels, so that pods of a workload
	// "a" are not confused with those of "a-web".
	letters = "[bcdfghjklmnpqrstvwxz2456789]"
	suffix  = letters + "{5}"
	hash    = letters + "{1,10}"
)

// templates are the expressions. In them SELECT stands for the labels that select the pods, and RATE
// for a span of time. A sum over a pod's containers leaves out cAdvisor's own sums.
var templates = map[Metric]string{
	CPU:             `sum by (namespace, pod) (rate(container_cpu_usage_seconds_total{SELECT, container!="", container!="POD"}[RATE]))`,
	CPURequest:      declared("requests", "cpu"),
	CPULimit:        declared("limits", "cpu"),
	CPUThrottled:    throttled("throttled_") + " / " + throttled(""),
	Memory:          `sum by (namespace, pod) (container_memory_working_set_bytes{SELECT, container!="", container!="POD"})`,
	MemoryRequest:   declared("requests", "memory"),
	MemoryLimit:     declared("limits", "memory"),
	Restarts:        `max by (namespace, pod, container) (kube_pod_container_status_restarts_total{SELECT})`,
	NetworkReceived: `sum by (namespace, pod) (rate(container_network_receive_bytes_total{SELECT}[RATE]))`,
	NetworkSent:     `sum by (namespace, pod) (rate(container_network_transmit_bytes_total{SELECT}[RATE]))`,
}

// declared is a sum over a pod's containers. Two replicas of kube-state-metrics count once.
func declared(kind, resource string) string {
	return `sum by (namespace, pod) (max by (namespace, pod, container) (kube_pod_container_resource_` + kind +
		`{SELECT, resource="` + resource + `"}))`
}

func throttled(kind string) string {
	return `sum by (namespace, pod) (rate(container_cpu_cfs_` + kind + `periods_total{SELECT, container!=""}[RATE]))`
}

// selection are the pods of a service: by namespace, patterns of whole names.
type selection map[string]*regexp.Regexp

// podsOf returns the pods that the workloads of an inventory have, had and will have. It knows them
// by their names: Prometheus still has the figures of pods that are gone, and the cluster does not
// have their owners any more. Pods that other controllers make are not among them.
func podsOf(objects []report.ObjectStatus) selection {
	patterns := map[string][]string{}
	for i, n := 0, 0; i < len(objects) && n < maxWorkloads; i++ {
		key := objects[i].Ref.Key
		if pattern := podPattern(key); pattern != "" {
			patterns[key.Namespace] = append(patterns[key.Namespace], pattern)
			n++
		}
	}
	pods := selection{}
	for namespace, all := range patterns {
		slices.Sort(all)
		pods[namespace] = regexp.MustCompile("^(?:" + strings.Join(slices.Compact(all), "|") + ")$")
	}
	return pods
}

// podPattern returns the pattern of the names of a workload's pods, or "" for other objects.
func podPattern(key inventory.Key) string {
	switch key.Group + "/" + key.Kind {
	case "/Pod":
		return regexp.QuoteMeta(key.Name)
	case "apps/StatefulSet":
		return regexp.QuoteMeta(key.Name) + "-[0-9]+"
	case "apps/DaemonSet", "apps/ReplicaSet", "/ReplicationController":
		return generated(key.Name, "", 0)
	case "apps/Deployment", "argoproj.io/Rollout":
		return generated(key.Name, hash, 10)
	case "batch/Job":
		return generated(key.Name, "", 0) + "|" + generated(key.Name, "[0-9]+", 5)
	case "batch/CronJob":
		return generated(key.Name, "[0-9]+", 11)
	}
	return ""
}

// generated returns the pattern of names that Kubernetes makes of a base, a part of at most so many
// letters, and five letters.
func generated(base, part string, letters int) string {
	name := base + "-"
	if len(name) >= maxBase {
		return regexp.QuoteMeta(name[:maxBase]) + suffix // what follows is cut off
	}
	if part == "" {
		return regexp.QuoteMeta(name) + suffix
	}
	end := "-"
	if len(name)+letters+1 > maxBase {
		end = "-?" // the part may be cut off
	}
	return regexp.QuoteMeta(name) + part + end + suffix
}

// has reports whether the pod is one of the service's.
func (s selection) has(namespace, pod string) bool {
	pattern, ok := s[namespace]
	return ok && pattern.MatchString(pod)
}

// expression returns what to ask, or "" if there are no pods or the metric is unknown.
func (s selection) expression(metric Metric, step time.Duration) string {
	template, rate := templates[metric], strconv.Itoa(int(max(minRate, step).Seconds()))+"s"
	if template == "" {
		return ""
	}
	var parts []string
	for _, namespace := range slices.Sorted(maps.Keys(s)) {
		pattern := strings.TrimSuffix(strings.TrimPrefix(s[namespace].String(), "^(?:"), ")$") // Prometheus anchors it
		labels := "namespace=" + strconv.Quote(namespace) + ", pod=~" + strconv.Quote(pattern)
		parts = append(parts, strings.NewReplacer("SELECT", labels, "RATE", rate).Replace(template))
	}
	return strings.Join(parts, " or ")
}
