// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package health

import "fmt"

// coreKind returns the function that judges a built-in kind of Kubernetes, or nil for a kind
// without special rules. The verdicts are those of kstatus, except where docs/health.md says
// otherwise.
func coreKind(group, kind string) func(object) Verdict {
	switch group {
	case "":
		return plainKind(kind)
	case "apps", "extensions":
		return workloadKind(kind)
	case "batch":
		return batchKind(kind)
	case "autoscaling":
		return only(kind, "HorizontalPodAutoscaler", autoscaler)
	case "policy":
		return only(kind, "PodDisruptionBudget", disruptionBudget)
	case "apiregistration.k8s.io":
		return only(kind, "APIService", apiService)
	case "apiextensions.k8s.io":
		return only(kind, "CustomResourceDefinition", definition)
	case "certificates.k8s.io":
		return only(kind, "CertificateSigningRequest", signingRequest)
	case "networking.k8s.io", "rbac.authorization.k8s.io", "storage.k8s.io", "admissionregistration.k8s.io",
		"scheduling.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "node.k8s.io", "events.k8s.io":
		return conventional
	}
	return nil
}

func only(kind, known string, judge func(object) Verdict) func(object) Verdict {
	if kind == known {
		return judge
	}
	return nil
}

func plainKind(kind string) func(object) Verdict {
	switch kind {
	case "Pod":
		return pod
	case "Service":
		return service
	case "PersistentVolumeClaim":
		return volumeClaim
	case "PersistentVolume":
		return volume
	case "ReplicationController":
		return replicaSet
	case "Namespace":
		return namespace
	case "Node":
		return node
	}
	return present
}

func workloadKind(kind string) func(object) Verdict {
	switch kind {
	case "Deployment":
		return deployment
	case "StatefulSet":
		return statefulSet
	case "DaemonSet":
		return daemonSet
	case "ReplicaSet":
		return replicaSet
	}
	return present
}

func batchKind(kind string) func(object) Verdict {
	switch kind {
	case "Job":
		return job
	case "CronJob":
		return cronJob
	}
	return present
}

// present judges kinds whose objects are healthy once they exist.
func present(object) Verdict {
	return Verdict{State: Healthy}
}

func healthy() Verdict {
	return Verdict{State: Healthy}
}

func progressing(format string, args ...any) Verdict {
	return Verdict{State: Progressing, Message: fmt.Sprintf(format, args...)}
}

func degraded(format string, args ...any) Verdict {
	return Verdict{State: Degraded, Message: fmt.Sprintf(format, args...)}
}

// because appends a reason to the message, unless the reason is empty.
func (v Verdict) because(why string) Verdict {
	if why != "" {
		v.Message += ": " + why
	}
	return v
}

// ofReplicas describes how many of a number of replicas are in a state, such as "2 of 3 replicas
// are ready".
func ofReplicas(n, of int64, what string) string {
	return fmt.Sprintf("%d of %d replicas are %s", n, of, what)
}
