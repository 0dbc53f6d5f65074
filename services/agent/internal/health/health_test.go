// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/services/agent/internal/health"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		manifest string
		want     health.State
	}{
		"config map": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", health.Healthy},
		"fresh deployment": {
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, generation: 2}\nspec: {replicas: 1}\nstatus: {observedGeneration: 1}\n",
			health.Progressing,
		},
		"available deployment": {
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, generation: 1}\nspec: {replicas: 1}\n" +
				"status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: 'True'}]}\n",
			health.Healthy,
		},
		"stuck deployment": {
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, generation: 1}\nspec: {replicas: 1}\n" +
				"status: {observedGeneration: 1, conditions: [{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded, message: too slow}]}\n",
			health.Degraded,
		},
		"failed job": {
			"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {}\nstatus: {conditions: [{type: Failed, status: 'True', message: no}]}\n",
			health.Degraded,
		},
		"terminating": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, deletionTimestamp: '2026-01-01T00:00:00Z'}\n", health.Terminating,
		},
		"custom object that is not ready": {
			"apiVersion: x.test/v1\nkind: Mill\nmetadata: {name: a}\nstatus: {conditions: [{type: Ready, status: 'False', message: no wind}]}\n",
			health.Progressing,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &unstructured.Unstructured{}
			content, err := yaml.YAMLToJSON([]byte(test.manifest))
			if err != nil {
				t.Fatal(err)
			}
			if err := object.UnmarshalJSON(content); err != nil {
				t.Fatal(err)
			}
			got := health.Of(object)
			if got.State != test.want || (got.Message == "") != (test.want == health.Healthy) {
				t.Errorf("got %v %q, want %v with a message unless healthy", got.State, got.Message, test.want)
			}
		})
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	var got health.Counts
	for state := health.Unknown; state <= health.Missing; state++ {
		got.Add(state)
	}
	if want := (health.Counts{Total: 6, Healthy: 1, Progressing: 3, Failed: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := health.State(42).String(); got != "State(42)" {
		t.Errorf("got %q, want State(42)", got)
	}
}
