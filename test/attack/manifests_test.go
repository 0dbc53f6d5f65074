// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package attack_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// top is the root of the checkout.
const top = "../.."

// pod holds the settings of the shipped manifests for a service's container.
type pod struct {
	memory int64    // the limit, in bytes
	env    []string // settings that are not addresses or paths: GOMEMLIMIT, sizes, numbers
}

// shipped returns the pod of a service from deploy/kubernetes.
func shipped(t *testing.T, service string) pod {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(top, "deploy", "kubernetes", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
			var workload struct {
				Spec struct{ Template corev1.PodTemplateSpec }
			}
			if err := yaml.Unmarshal(document, &workload); err != nil {
				continue // has another shape, so it is not a workload
			}
			for _, container := range workload.Spec.Template.Spec.Containers {
				if container.Name == service {
					return podOf(t, container)
				}
			}
		}
	}
	t.Fatalf("deploy/kubernetes has no container %s", service)
	return pod{}
}

func podOf(t *testing.T, container corev1.Container) pod {
	t.Helper()
	limit := container.Resources.Limits.Memory().Value()
	if limit == 0 {
		t.Fatalf("the container %s has no memory limit", container.Name)
	}
	p := pod{memory: limit}
	for _, variable := range container.Env {
		if variable.Value != "" && !strings.ContainsAny(variable.Value, "/:$") {
			p.env = append(p.env, variable.Name+"="+variable.Value)
		}
	}
	return p
}
