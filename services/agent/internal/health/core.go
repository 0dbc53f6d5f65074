// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package health

import "fmt"

// coreKinds judge the built-in kinds of Kubernetes that have a state of their own, by group and
// kind. The verdicts equal kstatus', with the exceptions in docs/guides/health.md.
var coreKinds = map[[2]string]func(object) Verdict{
	{"", "Pod"}:                                          pod,
	{"", "Service"}:                                      service,
	{"", "PersistentVolumeClaim"}:                        volumeClaim,
	{"", "PersistentVolume"}:                             volume,
	{"", "ReplicationController"}:                        replicaSet,
	{"", "Namespace"}:                                    namespace,
	{"", "Node"}:                                         node,
	{"apps", "Deployment"}:                               deployment,
	{"apps", "StatefulSet"}:                              statefulSet,
	{"apps", "DaemonSet"}:                                daemonSet,
	{"apps", "ReplicaSet"}:                               replicaSet,
	{"batch", "Job"}:                                     job,
	{"batch", "CronJob"}:                                 cronJob,
	{"autoscaling", "HorizontalPodAutoscaler"}:           autoscaler,
	{"policy", "PodDisruptionBudget"}:                    disruptionBudget,
	{"apiregistration.k8s.io", "APIService"}:             apiService,
	{"apiextensions.k8s.io", "CustomResourceDefinition"}: definition,
	{"certificates.k8s.io", "CertificateSigningRequest"}: signingRequest,
}

// coreKind returns the function that judges a built-in kind of Kubernetes, or nil for a kind
// without special rules.
func coreKind(group, kind string) func(object) Verdict {
	if group == "extensions" {
		group = "apps" // the workloads were there first
	}
	if judge := coreKinds[[2]string{group, kind}]; judge != nil {
		return judge
	}
	switch group {
	case "", "apps", "batch":
		return present
	case "networking.k8s.io", "rbac.authorization.k8s.io", "storage.k8s.io", "admissionregistration.k8s.io",
		"scheduling.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "node.k8s.io", "events.k8s.io":
		return conventional
	}
	return nil
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
