// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/report"
)

func argoScenarios() map[string]func(*scenario) {
	hook := func(phase string) string { return "argocd.argoproj.io/hook=" + phase }
	return map[string]func(*scenario){
		"Argo waves": func(s *scenario) {
			service := s.sync(s.gatedDeployment("web", "argocd.argoproj.io/sync-wave=-1"), config("after", "1"))
			s.appears("Deployment", "web")
			s.absent("ConfigMap/after")
			s.open()
			s.healthy(service)
		},
		"Argo PreSync and PostSync": func(s *scenario) {
			service := s.sync(s.gatedJob("pre", hook("PreSync")), config("a", "1"), job("post", hook("PostSync")))
			s.appears("Job", "pre")
			s.absent("ConfigMap/a", "Job/post")
			s.open()
			s.healthy(service)
			s.present("ConfigMap/a", "Job/post")
		},
		"an Argo hook in two phases": func(s *scenario) {
			service := s.sync(s.gatedJob("both", hook("PreSync,PostSync")), s.gatedDeployment("web"))
			first := s.appears("Job", "both")
			s.open()
			s.healthy(service)
			if got := s.uid("Job", "both"); got == first {
				s.t.Errorf("hook: got that of PreSync, want that of PostSync")
			}
		},
		"an Argo hook in the Sync phase": func(s *scenario) {
			service := s.sync(config("a", "1"), s.gatedJob("mid", hook("Sync"), "argocd.argoproj.io/sync-wave=1"), config("b", "1", "argocd.argoproj.io/sync-wave=2"))
			before := s.appears("Job", "mid")
			s.present("ConfigMap/a")
			s.absent("ConfigMap/b")
			s.open()
			s.healthy(service)
			s.refresh(service)
			if got := s.uid("Job", "mid"); got != before {
				s.t.Errorf("hook: got another one after a refresh, want the same")
			}
		},
		"Argo SyncFail": func(s *scenario) {
			s.fails(s.sync(failingJob("mid", hook("Sync")), job("alarm", hook("SyncFail"))), reason.HookFailed, "Sync hook")
			s.present("Job/alarm")
		},
		"Argo Skip": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), config("b", "1")))
			s.healthy(s.sync(config("a", "2", hook("Skip")), config("b", "2"), config("c", "1", hook("Skip"))))
			if got := at(s.get("ConfigMap", "a"), "data", "value"); got != "1" {
				s.t.Errorf("value: got %v, want still 1: it is skipped, and not pruned", got)
			}
			s.absent("ConfigMap/c")
		},
		"Argo HookSucceeded": func(s *scenario) {
			s.healthy(s.sync(job("pre", hook("PreSync"), "argocd.argoproj.io/hook-delete-policy=HookSucceeded")))
			s.vanishes("Job", "pre")
		},
		"Argo PreDelete and PostDelete": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), s.gatedJob("before", hook("PreDelete")), s.gatedJob("after", hook("PostDelete"), "argocd.argoproj.io/hook-delete-policy=HookFailed")))
			s.absent("Job/before", "Job/after")
			s.drop(s.name)
			s.appears("Job", "before")
			s.present("ConfigMap/a")
			s.absent("Job/after")
			s.open()
			s.gone(s.t, s.name)
			s.vanishes("ConfigMap", "a")
			s.vanishes("Job", "before")
		},
		"a failed PreDelete hook keeps the service": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), failingJob("before", hook("PreDelete"))))
			s.drop(s.name)
			s.await(s.t, s.name, func(got report.Status) bool {
				return got.Phase == report.Failed && got.Problem.Reason == reason.HookFailed
			})
			s.present("ConfigMap/a")
		},
		"a service that comes back during its removal": func(s *scenario) {
			manifests := []string{config("a", "1"), s.gatedJob("before", hook("PreDelete")), job("pre", hook("PreSync"))}
			s.healthy(s.sync(manifests...))
			s.drop(s.name)
			s.appears("Job", "before")
			s.healthy(s.sync(manifests...))
			s.present("ConfigMap/a", "Job/pre")
		},
		"a service that does not prune says no farewell": func(s *scenario) {
			s.spec.Prune = new(false)
			s.healthy(s.sync(config("a", "1"), job("before", hook("PreDelete"))))
			s.drop(s.name)
			s.gone(s.t, s.name)
			s.present("ConfigMap/a")
			s.absent("Job/before")
		},
		"a secret as a hook of the removal": func(s *scenario) {
			secret := manifest("v1", "Secret", "hidden", map[string]any{"stringData": map[string]any{"password": "hunter2"}}, hook("PreDelete"))
			s.fails(s.sync(config("a", "1"), secret), reason.ManifestInvalid, "PreDelete hook Secret", "holds a secret")
		},
	}
}

func helmScenarios() map[string]func(*scenario) {
	hook := func(events string) string { return "helm.sh/hook=" + events }
	return map[string]func(*scenario){
		"Helm pre-install runs at the first sync only": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), job("install", hook("pre-install")), job("upgrade", hook("pre-upgrade"))))
			before := s.uid("Job", "install")
			s.absent("Job/upgrade")
			s.healthy(s.sync(config("a", "2"), job("install", hook("pre-install")), job("upgrade", hook("pre-upgrade"))))
			s.present("Job/upgrade")
			if o := s.get("Job", "install"); o != nil && uidOf(o) != before {
				s.t.Errorf("hook: got another one, want that of the installation, or none")
			}
		},
		"a first sync that fails is tried again as an installation": func(s *scenario) {
			s.fails(s.sync(config("a", "1"), failingJob("install", hook("post-install"))), reason.HookFailed)
			s.healthy(s.sync(config("a", "1"), job("install", hook("post-install")), job("upgrade", hook("post-upgrade"))))
			s.present("Job/install")
			s.absent("Job/upgrade")
		},
		"a Helm hook for both": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), job("both", hook("pre-install,pre-upgrade"))))
			before := s.uid("Job", "both")
			s.healthy(s.sync(config("a", "2"), job("both", hook("pre-install,pre-upgrade"))))
			if got := s.uid("Job", "both"); got == before {
				s.t.Errorf("hook: got the same one, want another")
			}
		},
		"Helm weights": func(s *scenario) {
			service := s.sync(s.gatedJob("first", hook("pre-install"), "helm.sh/hook-weight=-5"), job("second", hook("pre-install"), "helm.sh/hook-weight=5"))
			s.appears("Job", "first")
			s.absent("Job/second")
			s.open()
			s.healthy(service)
			s.present("Job/second")
		},
		"a Helm hook with an account of its own": func(s *scenario) {
			account := manifest("v1", "ServiceAccount", "runner", nil, hook("pre-install"), "helm.sh/hook-weight=-1", "helm.sh/hook-delete-policy=before-hook-creation,hook-succeeded")
			spec := pods(nil, "Never")
			spec["serviceAccountName"] = "runner"
			run := jobWith("run", map[string]any{"template": map[string]any{"spec": spec}}, hook("pre-install"))
			s.healthy(s.sync(account, run)) // the account goes when all hooks have ended, not before
			s.until("Job", "run", func(o map[string]any) bool { return at(o, "status", "succeeded") != nil })
			s.mustNotExist(s.t, "/api/v1/namespaces/"+s.name+"/serviceaccounts/runner")
		},
		"Helm hook-succeeded": func(s *scenario) {
			s.healthy(s.sync(job("done", hook("post-install"), "helm.sh/hook-delete-policy=hook-succeeded")))
			s.vanishes("Job", "done")
		},
		"Helm pre-delete and post-delete": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), job("before", hook("pre-delete")), s.gatedJob("after", hook("post-delete"))))
			s.drop(s.name)
			s.appears("Job", "after")
			s.absent("ConfigMap/a")
			s.open()
			s.gone(s.t, s.name)
		},
		"Helm rollback hooks never run": func(s *scenario) {
			s.healthy(s.sync(config("a", "1"), job("back", hook("pre-rollback,post-rollback"))))
			s.healthy(s.sync(config("a", "2"), job("back", hook("pre-rollback,post-rollback"))))
			s.absent("Job/back")
		},
		"Helm crd-install": func(s *scenario) {
			s.healthy(s.sync(manifest("other.test/v1", "Melon", "a", nil, hook("pre-install")), other("Melon", hook("crd-install"))))
			s.mustExist(s.t, "/apis/other.test/v1/namespaces/"+s.name+"/melons/a")
		},
	}
}
