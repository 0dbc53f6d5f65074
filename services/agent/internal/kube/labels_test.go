// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

// labelScenarios are about labels that the API server adds.
func labelScenarios() map[string]func(*scenario) {
	return map[string]func(*scenario){
		"a ReplicationController gets the labels of its template": func(s *scenario) {
			s.healthy(s.sync(manifest("v1", "ReplicationController", "it", map[string]any{"spec": map[string]any{
				"replicas": 0, "template": map[string]any{
					"metadata": map[string]any{"labels": map[string]any{"app": "it"}}, "spec": pods(nil, ""),
				},
			}})))
			if got := at(s.get("ReplicationController", "it"), "metadata", "labels", "app"); got != "it" {
				s.t.Errorf("label app: got %v, want that of the template", got)
			}
		},
	}
}
