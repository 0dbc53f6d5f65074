// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// VanishesWhenDone reports whether objects of a kind come to an end, after which Kubernetes, or the
// kind's controller, may delete them. That happens by ttlSecondsAfterFinished, by the garbage
// collector for finished Pods and certificate signing requests, by a controller's retention, or by
// the API server's time to live for events. An object that completed must not be created again for
// the same content.
func VanishesWhenDone(kind schema.GroupKind) bool {
	switch kind.Kind {
	case "Job":
		return kind.Group == "batch"
	case "Pod":
		return kind.Group == ""
	case "Workflow":
		return kind.Group == "argoproj.io"
	case "PipelineRun", "TaskRun":
		return kind.Group == "tekton.dev"
	case "CertificateSigningRequest":
		return kind.Group == "certificates.k8s.io"
	case "Event":
		return kind.Group == "" || kind.Group == "events.k8s.io"
	default:
		return false
	}
}

// HasCompleted reports whether an object of such a kind has ended successfully. It only reads the
// object.
func HasCompleted(o *unstructured.Unstructured) bool {
	kind := o.GroupVersionKind().GroupKind()
	if !VanishesWhenDone(kind) {
		return false
	}
	switch kind.Kind {
	case "Job":
		return conditionOf(o.Object, "Complete").status == isTrue
	case "PipelineRun", "TaskRun":
		return conditionOf(o.Object, "Succeeded").status == isTrue
	case "CertificateSigningRequest":
		return text(o.Object, "status", "certificate") != ""
	case "Event":
		return true
	default: // Pod, Workflow
		return text(o.Object, "status", "phase") == "Succeeded"
	}
}
