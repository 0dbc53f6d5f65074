// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

// onceScenarios are about objects that Kubernetes deletes after their end.
func onceScenarios() map[string]func(*scenario) {
	expiring := func(name string) string {
		spec := pods(nil, "Never")
		spec["hostname"] = name
		return jobWith("migrate", map[string]any{"ttlSecondsAfterFinished": 0, "template": map[string]any{"spec": spec}}, recreate)
	}
	return map[string]func(*scenario){
		"a Job is not made again after Kubernetes deleted it": func(s *scenario) {
			first := s.sync(expiring("one"), config("a", "1"))
			before := s.appears("Job", "migrate")
			s.healthy(first)
			s.vanishes("Job", "migrate")
			s.refresh(first)
			s.absent("Job/migrate")
			s.healthy(s.again(first, "now"))
			s.absent("Job/migrate")
			second := s.sync(expiring("two"), config("a", "1")) // another content runs once more
			if after := s.appears("Job", "migrate"); after == before {
				s.t.Errorf("got the same Job, want another")
			}
			s.healthy(second)
			s.vanishes("Job", "migrate")
			s.refresh(second)
			s.absent("Job/migrate")
		},
	}
}
