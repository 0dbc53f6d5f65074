// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// outcome is how far something has come that runs once.
type outcome struct {
	ended, failed bool
	message       string // how it fares, or why it failed
}

// outcomeOf reads how far an object has come that is run as a hook: a Job or Pod by its end, where health is content with its
// running, and other kinds by their health. Nil has not ended.
func (e *Engine) outcomeOf(o *unstructured.Unstructured) outcome {
	if o == nil {
		return outcome{}
	}
	switch o.GroupVersionKind().GroupKind().String() {
	case "Job.batch":
		return e.conditioned(o, "Complete", "Failed")
	case "PipelineRun.tekton.dev", "TaskRun.tekton.dev":
		return e.conditioned(o, "Succeeded", "")
	case "Pod", "Workflow.argoproj.io":
		return e.phased(o)
	}
	v := e.Judge(o)
	return outcome{ended: v.State == health.Healthy || v.State == health.Degraded, failed: v.State == health.Degraded, message: v.Message}
}

// runsOnce tells kinds that cannot be applied a second time to the same effect.
func runsOnce(k inventory.Key) bool {
	return slices.Contains([]string{
		"Job.batch", "Pod", "Workflow.argoproj.io", "PipelineRun.tekton.dev", "TaskRun.tekton.dev",
	}, k.GroupKind().String())
}

// conditioned reads the end from conditions. Without one for failure, the other one's being false is the failure.
func (e *Engine) conditioned(o *unstructured.Unstructured, success, failure string) outcome {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		message, _ := c["message"].(string)
		if reason, _ := c["reason"].(string); message == "" {
			message = reason
		}
		switch {
		case c["type"] == success && c["status"] == "True":
			return outcome{ended: true}
		case c["type"] == failure && c["status"] == "True", failure == "" && c["type"] == success && c["status"] == "False":
			return outcome{ended: true, failed: true, message: message}
		}
	}
	return outcome{message: e.Judge(o).Message}
}

func (e *Engine) phased(o *unstructured.Unstructured) outcome {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	message, _, _ := unstructured.NestedString(o.Object, "status", "message")
	switch phase {
	case "Succeeded":
		return outcome{ended: true}
	case "Failed", "Error":
		if message == "" {
			message = e.Judge(o).Message
		}
		return outcome{ended: true, failed: true, message: message}
	}
	return outcome{message: e.Judge(o).Message}
}
