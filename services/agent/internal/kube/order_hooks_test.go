// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"net/http"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/reconcile/execute"
	"github.com/leatdev/leat/services/agent/internal/report"
)

const preSync, postSync, syncFail = "leat.dev/phase=PreSync", "leat.dev/phase=PostSync", "leat.dev/phase=SyncFail"

func hookScenarios() map[string]func(*scenario) {
	return map[string]func(*scenario){
		"PreSync runs before everything else": func(s *scenario) {
			service := s.sync(s.gatedJob("migrate", preSync), config("a", "1"))
			s.appears("Job", "migrate")
			s.await(s.t, s.name, func(got report.Status) bool { return got.Phase == report.Syncing })
			s.absent("ConfigMap/a")
			s.open()
			s.healthy(service)
			s.present("ConfigMap/a", "Job/migrate")
		},
		"PostSync runs when everything is healthy": func(s *scenario) {
			service := s.sync(s.gatedDeployment("web"), job("notify", postSync))
			s.appears("Deployment", "web")
			s.absent("Job/notify")
			s.open()
			s.healthy(service)
			s.present("Job/notify")
		},
		"a failed PreSync hook stops the sync": func(s *scenario) {
			service := s.sync(failingJob("migrate", preSync), config("a", "1"))
			s.fails(service, reason.HookFailed, "PreSync hook Job.batch "+s.name+"/migrate", "active longer than specified deadline")
			s.absent("ConfigMap/a")
		},
		"a failed PostSync hook fails the sync": func(s *scenario) {
			service := s.sync(config("a", "1"), failingJob("notify", postSync))
			s.fails(service, reason.HookFailed, "PostSync hook", "notify")
			s.present("ConfigMap/a")
		},
		"SyncFail runs when a hook failed": func(s *scenario) {
			service := s.sync(failingJob("migrate", preSync), job("alarm", syncFail))
			s.fails(service, reason.HookFailed, "migrate")
			s.present("Job/alarm")
		},
		"SyncFail runs when an object was refused": func(s *scenario) {
			service := s.sync(config("a", "1", "Bad!=x"), job("alarm", syncFail))
			s.fails(service, reason.ApplyRejected)
			s.present("Job/alarm")
		},
		"SyncFail runs once for a change": func(s *scenario) {
			service := s.sync(config("a", "1", "Bad!=x"), job("alarm", syncFail))
			s.fails(service, reason.ApplyRejected)
			before := s.uid("Job", "alarm")
			s.again(service, "please")
			s.until("Job", "alarm", func(o map[string]any) bool { return o != nil && uidOf(o) != before })
		},
		"SyncFail does not run when all is well": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), job("alarm", syncFail)))
			s.absent("Job/alarm")
		},
		"hooks do not run at a refresh": func(s *scenario) {
			service := s.sync(job("migrate", preSync), job("notify", postSync), config("a", "1"))
			s.healthy(service)
			before := s.uid("Job", "migrate") + s.uid("Job", "notify")
			s.refresh(service)
			if got := s.uid("Job", "migrate") + s.uid("Job", "notify"); got != before {
				s.t.Errorf("hooks: got other ones, want those of the sync")
			}
		},
		"hooks do not run when drift is corrected": func(s *scenario) {
			s.healthy(s.sync(job("migrate", preSync), config("a", "1")))
			before := s.uid("Job", "migrate")
			s.change("ConfigMap", "a", `{"data":{"value":"drifted"}}`)
			s.until("ConfigMap", "a", func(o map[string]any) bool { return at(o, "data", "value") == "1" })
			if got := s.uid("Job", "migrate"); got != before {
				s.t.Errorf("hook: got another one, want that of the sync")
			}
		},
		"hooks run again for a new commit": func(s *scenario) {
			s.healthy(s.sync(job("migrate", preSync), config("a", "1")))
			before := s.uid("Job", "migrate")
			s.healthy(s.sync(job("migrate", preSync), config("a", "2")))
			if got := s.uid("Job", "migrate"); got == before {
				s.t.Errorf("hook: got the same one, want another")
			}
		},
		"hooks run again when a commit comes back": func(s *scenario) {
			s.healthy(s.sync(job("migrate", preSync), config("a", "1")))
			s.healthy(s.sync(config("a", "2"), config("b", "2")))
			s.healthy(s.sync(job("migrate", preSync), config("a", "1")))
			first := s.uid("Job", "migrate")
			s.healthy(s.sync(job("migrate", preSync), config("a", "2")))
			s.healthy(s.sync(job("migrate", preSync), config("a", "1")))
			if got := s.uid("Job", "migrate"); got == first {
				s.t.Errorf("hook: got the same one, want another")
			}
		},
		"hooks run again when somebody asks for a sync": func(s *scenario) {
			service := s.sync(job("migrate", preSync), config("a", "1"))
			s.healthy(service)
			before := s.uid("Job", "migrate")
			s.again(service, "please")
			s.await(s.t, s.name, func(got report.Status) bool {
				return got.ObservedSyncRequest == "please" && got.Phase == report.Healthy
			})
			if got := s.uid("Job", "migrate"); got == before {
				s.t.Errorf("hook: got the same one, want another")
			}
		},
		"a failed hook is not repeated by itself": func(s *scenario) {
			service := s.sync(failingJob("migrate", preSync), config("a", "1"))
			s.fails(service, reason.HookFailed)
			before := s.uid("Job", "migrate")
			events, end := s.engine.Subscribe(s.name)
			defer end()
			if err := s.engine.Reconcile(s.name); err != nil {
				s.t.Fatal(err)
			}
			s.fails(service, reason.HookFailed, "migrate")
			select {
			case event := <-events:
				if event.Message == "PreSync hook runs" {
					s.t.Errorf("event: got %q, want none", event.Message)
				}
			default:
			}
			if got := s.uid("Job", "migrate"); got != before {
				s.t.Errorf("hook: got another one, want the one that failed")
			}
		},
		"the next commit repairs a failed hook": func(s *scenario) {
			s.fails(s.sync(failingJob("migrate", preSync), config("a", "1")), reason.HookFailed)
			s.healthy(s.sync(job("migrate", preSync), config("a", "1")))
			s.present("ConfigMap/a")
		},
		"all hooks of a wave run, and all failures are told": func(s *scenario) {
			service := s.sync(failingJob("one", preSync), failingJob("two", preSync), job("three", preSync))
			s.fails(service, reason.HookFailed, "/one failed", "/two failed")
			s.until("Job", "three", func(o map[string]any) bool { return at(o, "status", "succeeded") != nil })
		},
		"hooks run in waves": func(s *scenario) {
			service := s.sync(s.gatedJob("first", preSync, "leat.dev/wave=-1"), job("second", preSync, "leat.dev/wave=3"))
			s.appears("Job", "first")
			s.absent("Job/second")
			s.open()
			s.healthy(service)
			s.present("Job/second")
		},
		"a slow hook ends in time or fails": func(s *scenario) {
			s.spec.HealthTimeout = time.Second
			service := s.sync(s.gatedJob("slow", preSync), config("a", "1"))
			s.fails(service, reason.HealthTimeout, "within 1s", "slow")
			before := s.uid("Job", "slow")
			s.open()
			s.healthy(service)
			if got := s.uid("Job", "slow"); got != before {
				s.t.Errorf("hook: got another one, want the one that took its time")
			}
		},
		"a hook that is deleted while it runs": func(s *scenario) {
			service := s.sync(s.gatedJob("migrate", preSync), config("a", "1"))
			s.appears("Job", "migrate")
			s.request(s.t, http.MethodDelete, s.collection("Job")+"/migrate?propagationPolicy=Background", "", "")
			s.fails(service, reason.HookFailed, "migrate was deleted before it ended")
			s.absent("ConfigMap/a")
		},
		"hooks are no part of the service": func(s *scenario) {
			got := s.healthy(s.sync(job("migrate", preSync), config("a", "1")))
			if got.Counts.Total != 1 {
				s.t.Errorf("objects: got %d, want 1", got.Counts.Total)
			}
			hook := s.get("Job", "migrate")
			if label := at(hook, "metadata", "labels", execute.HookLabel); label != "PreSync" {
				s.t.Errorf("label: got %v, want PreSync", label)
			}
			if label := at(hook, "metadata", "labels", k8s.ServiceLabel); label != s.name {
				s.t.Errorf("label: got %v, want %s", label, s.name)
			}
		},
		"a hook that left the manifests goes": func(s *scenario) {
			s.healthy(s.sync(job("migrate", preSync), config("a", "1")))
			s.healthy(s.sync(config("a", "2")))
			s.vanishes("Job", "migrate")
		},
		"hooks go with the service": func(s *scenario) {
			s.healthy(s.sync(job("migrate", preSync), config("a", "1")))
			s.drop(s.name)
			s.gone(s.t, s.name)
			s.vanishes("Job", "migrate")
		},
		"a Pod as a hook": func(s *scenario) {
			pod := manifest("v1", "Pod", "check", map[string]any{"spec": pods(nil, "Never")}, preSync)
			service := s.sync(pod, config("a", "1"))
			s.until("Pod", "check", func(o map[string]any) bool { return at(o, "status", "phase") == "Running" })
			s.absent("ConfigMap/a") // a hook that runs has not ended
			status, _ := s.request(s.t, http.MethodPatch, s.collection("Pod")+"/check/status", mergePatch, `{"status":{"phase":"Succeeded"}}`)
			if status != http.StatusOK {
				s.t.Fatalf("patch: got %d, want 200", status)
			}
			s.healthy(service)
		},
		"a failed Pod as a hook": func(s *scenario) {
			pod := manifest("v1", "Pod", "check", map[string]any{"spec": pods(s.gate(), "Never")}, preSync)
			service := s.sync(pod, config("a", "1"))
			s.appears("Pod", "check")
			s.request(s.t, http.MethodPatch, s.collection("Pod")+"/check/status", mergePatch, `{"status":{"phase":"Failed","message":"no database"}}`)
			s.fails(service, reason.HookFailed, "check failed: no database")
		},
		"other kinds as hooks": func(s *scenario) {
			service := s.sync(config("settings", "1", preSync), s.gatedJob("migrate", preSync, "leat.dev/wave=1"))
			s.appears("Job", "migrate")
			s.present("ConfigMap/settings")
			s.open()
			if got := s.healthy(service); got.Counts.Total != 0 {
				s.t.Errorf("objects: got %d, want none", got.Counts.Total)
			}
		},
		"a hook that is refused": func(s *scenario) {
			service := s.sync(job("migrate", preSync, "Bad!=x"), config("a", "1"))
			got := s.fails(service, reason.ApplyRejected)
			s.refused(got, "migrate")
			s.absent("ConfigMap/a")
			s.healthy(s.sync(job("migrate", preSync), config("a", "1")))
		},
		"a hook and an object of one name": func(s *scenario) {
			service := s.sync(config("a", "1", preSync), config("a", "2"))
			s.fails(service, reason.ManifestInvalid, "twice")
		},
		"a hook of another service": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), job("migrate", preSync)))
			other := s.serve(s.name+"-other", job("migrate", preSync))
			got := s.fails(other, reason.ObjectClaimed)
			if message := s.refused(got, "migrate"); !strings.Contains(message, s.name) {
				s.t.Errorf("problem: got %q, want it to name %s", message, s.name)
			}
		},
		"a Job that somebody else has made": func(s *scenario) {
			s.create("Job", job("migrate"))
			// Kubernetes' controller may not notice a Job that takes the name of one that it is
			// about to start.
			before := uidOf(s.until("Job", "migrate", func(o map[string]any) bool { return at(o, "status", "succeeded") != nil }))
			service := s.sync(job("migrate", preSync), config("a", "1"))
			got := s.fails(service, reason.ApplyRejected)
			if message := s.refused(got, "migrate"); !strings.Contains(message, "delete it") {
				s.t.Errorf("problem: got %q, want advice to delete it", message)
			}
			if got := s.uid("Job", "migrate"); got != before {
				s.t.Errorf("job: got another one, want it untouched")
			}
			s.request(s.t, http.MethodDelete, s.collection("Job")+"/migrate?propagationPolicy=Background", "", "")
			s.healthy(service)
		},
		"an object becomes a hook": func(s *scenario) {
			s.healthy(s.sync(job("work"), config("a", "1")))
			before := s.uid("Job", "work")
			got := s.healthy(s.sync(job("work", postSync), config("a", "1")))
			if s.uid("Job", "work") == before || got.Counts.Total != 1 {
				s.t.Errorf("got the same job, or %d objects, want another job, and 1 object", got.Counts.Total)
			}
		},
		"a hook becomes an object": func(s *scenario) {
			s.healthy(s.sync(config("a", "1", preSync), config("b", "1")))
			got := s.healthy(s.sync(config("a", "2"), config("b", "1")))
			if label := at(s.get("ConfigMap", "a"), "metadata", "labels", execute.HookLabel); label != nil || got.Counts.Total != 2 {
				s.t.Errorf("got label %v, %d objects, want none, and 2", label, got.Counts.Total)
			}
			s.healthy(s.sync(config("b", "1")))
			s.vanishes("ConfigMap", "a")
		},
		"a newer commit ends a hook": func(s *scenario) {
			s.sync(s.gatedJob("migrate", preSync, "leat.dev/hook-delete-policy=HookSucceeded"), config("a", "1"))
			// Kubernetes' controller may not notice a Job that takes the name of one that it is
			// about to start.
			before := uidOf(s.until("Job", "migrate", func(o map[string]any) bool { return at(o, "status", "active") != nil }))
			service := s.sync(job("migrate", preSync, "leat.dev/hook-delete-policy=HookFailed"), config("a", "2"))
			s.healthy(service)
			if got := s.uid("Job", "migrate"); got == before {
				s.t.Errorf("hook: got that of the earlier commit, want another")
			}
		},
		"a stuck hook delays no other service": func(s *scenario) {
			s.sync(s.gatedJob("migrate", preSync))
			s.appears("Job", "migrate")
			s.healthy(s.serve(s.name+"-other", job("quick", preSync), config("b", "1")))
		},
		"test hooks are not applied": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), config("t", "1", "leat.dev/phase=PreDelete")))
			s.absent("ConfigMap/t")
		},
	}
}

func policyScenarios() map[string]func(*scenario) {
	const policy = "leat.dev/hook-delete-policy="
	return map[string]func(*scenario){
		"HookSucceeded deletes it": func(s *scenario) {
			service := s.sync(job("migrate", preSync, policy+"HookSucceeded"), config("a", "1"))
			s.healthy(service)
			s.vanishes("Job", "migrate")
			s.refresh(service)
			s.absent("Job/migrate")
		},
		"HookSucceeded leaves a failed one": func(s *scenario) {
			s.fails(s.sync(failingJob("migrate", preSync, policy+"HookSucceeded")), reason.HookFailed)
			s.present("Job/migrate")
		},
		"HookFailed deletes it": func(s *scenario) {
			service := s.sync(failingJob("migrate", preSync, policy+"HookFailed"), config("a", "1"))
			s.fails(service, reason.HookFailed, "migrate")
			s.vanishes("Job", "migrate")
			if err := s.engine.Reconcile(s.name); err != nil {
				s.t.Fatal(err)
			}
			s.fails(service, reason.HookFailed, "active longer")
			s.absent("Job/migrate", "ConfigMap/a")
		},
		"HookFailed leaves one that succeeded": func(s *scenario) {
			s.healthy(s.sync(job("migrate", preSync, policy+"HookFailed")))
			s.present("Job/migrate")
		},
		"both delete it in any case": func(s *scenario) {
			s.healthy(s.sync(job("migrate", preSync, policy+"HookSucceeded,HookFailed")))
			s.vanishes("Job", "migrate")
		},
		"what an earlier sync left is in the way": func(s *scenario) {
			s.healthy(s.sync(job("migrate", preSync, policy+"HookFailed"), config("a", "1")))
			service := s.sync(job("migrate", preSync, policy+"HookFailed"), config("a", "2"))
			got := s.fails(service, reason.ApplyRejected)
			if message := s.refused(got, "migrate"); !strings.Contains(message, "BeforeHookCreation") {
				s.t.Errorf("problem: got %q, want it to advise BeforeHookCreation", message)
			}
			s.request(s.t, http.MethodDelete, s.collection("Job")+"/migrate?propagationPolicy=Background", "", "")
			s.healthy(service)
			s.healthy(s.sync(job("migrate", preSync), config("a", "3")))
		},
		"BeforeHookCreation waits until the old one is gone": func(s *scenario) {
			s.healthy(s.sync(job("migrate", preSync), config("a", "1")))
			before := s.uid("Job", "migrate")
			s.change("Job", "migrate", `{"metadata":{"finalizers":["order.test/hold"]}}`)
			service := s.sync(job("migrate", preSync), config("a", "2"))
			s.until("Job", "migrate", func(o map[string]any) bool { return at(o, "metadata", "deletionTimestamp") != nil })
			if got := at(s.get("ConfigMap", "a"), "data", "value"); got != "1" {
				s.t.Errorf("value: got %v, want still 1", got)
			}
			s.change("Job", "migrate", `{"metadata":{"finalizers":null}}`)
			s.healthy(service)
			if got := s.uid("Job", "migrate"); got == before {
				s.t.Errorf("hook: got the old one, want another")
			}
		},
		"a finalizer holds the old one for too long": func(s *scenario) {
			s.spec.Policy.Deletion.Timeout = time.Second
			s.healthy(s.sync(job("migrate", preSync), config("a", "1")))
			s.change("Job", "migrate", `{"metadata":{"finalizers":["order.test/hold"]}}`)
			service := s.sync(job("migrate", preSync), config("a", "2"))
			got := s.fails(service, reason.ApplyRejected)
			if message := s.refused(got, "migrate"); !strings.Contains(message, "order.test/hold") {
				s.t.Errorf("problem: got %q, want it to name the finalizer", message)
			}
			s.change("Job", "migrate", `{"metadata":{"finalizers":null}}`)
			s.healthy(service)
		},
		"other kinds are applied over": func(s *scenario) {
			s.healthy(s.sync(config("settings", "1", preSync, policy+"HookFailed"), config("a", "1")))
			before := s.uid("ConfigMap", "settings")
			s.healthy(s.sync(config("settings", "2", preSync, policy+"HookFailed"), config("a", "1")))
			o := s.get("ConfigMap", "settings")
			if uidOf(o) != before || at(o, "data", "value") != "2" {
				s.t.Errorf("got uid %s, value %v, want %s, 2", uidOf(o), at(o, "data", "value"), before)
			}
		},
		"names that are generated": func(s *scenario) {
			nameless := func(extra string) string {
				return strings.Replace(job("migrate", "argocd.argoproj.io/hook=PreSync", "order.test/x="+extra), `"name":"migrate"`, `"generateName":"migrate-"`, 1)
			}
			service := s.sync(nameless("1"), config("a", "1"))
			s.healthy(service)
			first := s.jobs()
			if len(first) != 1 || !strings.HasPrefix(first[0], "migrate-") || len(first[0]) <= len("migrate-") {
				s.t.Fatalf("jobs: got %v, want one with a name of its own", first)
			}
			s.refresh(service)
			if again := s.jobs(); len(again) != 1 || again[0] != first[0] {
				s.t.Errorf("jobs after a refresh: got %v, want %v", again, first)
			}
			s.healthy(s.sync(nameless("2"), config("a", "2")))
			s.vanishes("Job", first[0])
			if second := s.jobs(); len(second) != 1 || second[0] == first[0] {
				s.t.Errorf("jobs after a commit: got %v, want one with another name", second)
			}
		},
		"two alike whose names are generated": func(s *scenario) {
			nameless := strings.Replace(job("x", preSync), `"name":"x"`, `"generateName":"twin-"`, 1)
			s.healthy(s.sync(nameless, nameless))
			if got := s.jobs(); len(got) != 2 {
				s.t.Errorf("jobs: got %v, want 2", got)
			}
		},
		"an object whose name is generated": func(s *scenario) {
			nameless := strings.Replace(config("x", "1"), `"name":"x"`, `"generateName":"x-"`, 1)
			s.fails(s.sync(nameless), reason.ManifestInvalid, "generateName")
		},
	}
}
