// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package deploy compares the deployment files with the programs: settings exist, and a real API
// server accepts the manifests.
package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
)

// top is the root of the checkout.
const top = "../.."

// settings returns the environment variables that docs/reference/config.md lists.
func settings(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(top, "docs", "reference", "config.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`LEAT_[A-Z0-9_]+`).FindAllString(string(page), -1)
	slices.Sort(names)
	return slices.Compact(names)
}

// checkSetting fails for one of our variables that no program reads.
func checkSetting(t *testing.T, known []string, where, name string) {
	t.Helper()
	if !strings.HasPrefix(name, "LEAT_") {
		return
	}
	if !slices.Contains(known, name) && !slices.Contains(known, strings.TrimSuffix(name, "_FILE")) {
		t.Errorf("%s sets %s, which is not in docs/reference/config.md", where, name)
	}
}

func TestComposeFileIsValid(t *testing.T) {
	t.Parallel()
	project := loadCompose(t)
	known := settings(t)
	for _, own := range regexp.MustCompile(`= "(LEAT_[A-Z_]+)"`).FindAllSubmatch(read(t, top, "cli", "internal", "session", "session.go"), -1) {
		known = append(known, string(own[1])) // the command line's
	}
	for _, service := range project.Services {
		for name := range service.Environment {
			checkSetting(t, known, "docker-compose.yml: "+service.Name, name)
		}
		for _, volume := range service.Volumes {
			if volume.Type != "bind" {
				continue
			}
			if _, err := os.Stat(volume.Source); err != nil {
				t.Errorf("service %s mounts a file that is not there: %v", service.Name, err)
			}
		}
	}
	for _, want := range []string{"init", "leat", "redis", "postgres", "gitcache-1", "gitcache-2", "distributor-1", "distributor-2", "tunnel-1", "tunnel-2", "front", "collector", "traces", "metrics", "dashboards", "demo", "demo-agent", "demo-cluster", "demo-git"} {
		if _, ok := project.Services[want]; !ok {
			t.Errorf("docker-compose.yml: no service %s", want)
		}
	}
}

// TestManifests applies deploy/kubernetes to a real API server, with its schema and admission.
func TestManifests(t *testing.T) {
	t.Parallel()
	manifests, err := filepath.Glob(filepath.Join(top, "deploy", "kubernetes", "*.yaml"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("find manifests: %v, %v", manifests, err)
	}
	known := settings(t)
	cluster := kubetest.Start(t, func(p *localkube.Params) { p.APIServerOnly = true })
	kubectl := kubetest.Binaries(t.Context(), t).Kubectl
	for _, manifest := range manifests {
		content, err := os.ReadFile(manifest)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`name: (LEAT_[A-Z_]+)`).FindAllSubmatch(content, -1) {
			checkSetting(t, known, manifest, string(name[1]))
		}
		apply := exec.CommandContext(t.Context(), kubectl, "--kubeconfig", cluster.KubeconfigPath(),
			"apply", "--server-side", "--validate=strict", "-f", manifest)
		apply.Env = append(os.Environ(), "HOME="+t.TempDir())
		if out, err := apply.CombinedOutput(); err != nil {
			t.Errorf("apply %s: %v\n%s", manifest, err, bytes.TrimSpace(out))
		}
	}
}
