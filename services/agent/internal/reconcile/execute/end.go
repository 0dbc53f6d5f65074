// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// end is the progress of an object that runs once, such as a hook or a test.
type end struct {
	hasEnded, hasFailed bool
	message             string // its state, or why it failed
}

// endOf returns the progress of an object. A Job or Pod ends when it completes, although it is
// healthy while it runs. Objects of other kinds end when they are healthy or degraded. A nil object
// has not ended.
func endOf(o *unstructured.Unstructured, judge func(*unstructured.Unstructured) health.Verdict) end {
	if o == nil {
		return end{}
	}
	switch o.GroupVersionKind().GroupKind().String() {
	case "Job.batch":
		return conditionEnd(o, "Complete", "Failed", judge)
	case "PipelineRun.tekton.dev", "TaskRun.tekton.dev":
		return conditionEnd(o, "Succeeded", "", judge)
	case "Pod", "Workflow.argoproj.io":
		return phaseEnd(o, judge)
	}
	v := judge(o)
	return end{hasEnded: v.State == health.Healthy || v.State == health.Degraded, hasFailed: v.State == health.Degraded, message: v.Message}
}

// RunsOnce reports whether a second apply of an object of the kind would not run it again.
func RunsOnce(k inventory.Key) bool {
	return slices.Contains([]string{
		"Job.batch", "Pod", "Workflow.argoproj.io", "PipelineRun.tekton.dev", "TaskRun.tekton.dev",
	}, k.GroupKind().String())
}

// conditionEnd reads the end from conditions. Kinds without a condition for failure report it by a
// false condition for success.
func conditionEnd(o *unstructured.Unstructured, success, failure string, judge func(*unstructured.Unstructured) health.Verdict) end {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		message, _ := c["message"].(string)
		if reason, _ := c["reason"].(string); message == "" {
			message = reason
		}
		switch {
		case c["type"] == success && c["status"] == "True":
			return end{hasEnded: true}
		case c["type"] == failure && c["status"] == "True", failure == "" && c["type"] == success && c["status"] == "False":
			return end{hasEnded: true, hasFailed: true, message: message}
		}
	}
	return end{message: judge(o).Message}
}

// phaseEnd reads the end from status.phase.
func phaseEnd(o *unstructured.Unstructured, judge func(*unstructured.Unstructured) health.Verdict) end {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	message, _, _ := unstructured.NestedString(o.Object, "status", "message")
	switch phase {
	case "Succeeded":
		return end{hasEnded: true}
	case "Failed", "Error":
		if message == "" {
			message = judge(o).Message
		}
		return end{hasEnded: true, hasFailed: true, message: message}
	}
	return end{message: judge(o).Message}
}
