// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/testkit/await"
)

const login = `apiVersion: v1
kind: Secret
metadata: {name: login, labels: {region: "${REGION:-nowhere}"}}
stringData: {password: "${PASSWORD}"}
`

// password reads the Secret of the service.
func (h *hub) password(t *testing.T) string {
	t.Helper()
	code, body := h.kubeGet(t, "/api/v1/namespaces/login/secrets/login")
	var secret struct{ Data map[string]string }
	if err := json.Unmarshal([]byte(body), &secret); err != nil || code != http.StatusOK {
		return ""
	}
	plain, err := base64.StdEncoding.DecodeString(secret.Data["password"])
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

// TestConfiguration delivers secrets from a document to a cluster, with every part real, and looks
// for them everywhere else.
func TestConfiguration(t *testing.T) {
	h := startHub(t)
	repo := h.upstream.Repo(t, "shop")
	commit := repo.Commit(t, "main", map[string]string{"login/secret.yaml": login})
	document := func(config *fleetv1.ServiceConfig) *fleetv1.Document {
		d := service("login", "shop", "login")
		d.GetService().Spec.Config = config
		return d
	}
	h.apply(t, repository("shop", repo.URL()), document(&fleetv1.ServiceConfig{Values: map[string]string{"REGION": "north"}}))
	missing := h.waitService(t, "login", "without its variable", func(s *fleetv1.ServiceStatus) bool {
		return s.GetPhase() == typev1.ServicePhase_SERVICE_PHASE_FAILED
	})
	if p := missing.GetProblem(); p.GetReason() != errorsv1.Reason_REASON_VARIABLE_MISSING || !strings.Contains(p.GetMessage(), "PASSWORD") {
		t.Errorf("problem: got %v, want VARIABLE_MISSING about PASSWORD", p)
	}
	for _, secret := range []string{"hunter2-of-the-suite", "hunter3-of-the-suite"} {
		h.apply(t, document(&fleetv1.ServiceConfig{Secrets: map[string]string{"PASSWORD": secret}}))
		h.waitService(t, "login", "healthy with its secret", func(s *fleetv1.ServiceStatus) bool { return healthyAt(commit)(s) })
		if got := h.password(t); got != secret {
			t.Errorf("the password in the cluster: got %q, want %q", got, secret)
		}
	}

	// The agent restarts while the hub is down and the object is missing from the cluster.
	h.agent.stop()
	h.distributor.stop()
	h.kubeDelete(t, "/api/v1/namespaces/login/secrets/login")
	h.kubeDelete(t, "/api/v1/namespaces/leat-system/configmaps/leat-inventory.login")
	h.agent.start(t)
	await.Poll(t, "the secret to be there again", pause, func() (bool, string) {
		got := h.password(t)
		return got == "hunter3-of-the-suite", got
	})
	h.agent.stop()
	h.gitcache.stop()
	err := filepath.WalkDir(h.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte("hunter")) {
			t.Errorf("a secret is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestParametersThatDoNotMeetTheirSchema changes a configuration to one that the schema beside the
// manifests refuses, with every part real: nothing is applied, and what runs stays.
func TestParametersThatDoNotMeetTheirSchema(t *testing.T) {
	h := startHub(t)
	repo := h.upstream.Repo(t, "shop")
	commit := repo.Commit(t, "main", map[string]string{
		"login/secret.yaml":      login,
		"login/leat.schema.json": `{"required": ["PASSWORD"], "properties": {"PASSWORD": {"type": "string", "minLength": 12}}}`,
	})
	password := func(secret string) *fleetv1.Document {
		d := service("login", "shop", "login")
		d.GetService().Spec.Config = &fleetv1.ServiceConfig{Secrets: map[string]string{"PASSWORD": secret}}
		return d
	}
	h.apply(t, repository("shop", repo.URL()), password("swordfish-of-the-suite"))
	h.waitService(t, "login", "healthy with a good secret", healthyAt(commit))
	h.apply(t, password("swordfish"))
	failed := h.waitService(t, "login", "refused with a bad secret", func(s *fleetv1.ServiceStatus) bool {
		return s.GetPhase() == typev1.ServicePhase_SERVICE_PHASE_FAILED
	})
	const want = "leat.schema.json: the service's parameters do not meet the schema: PASSWORD: want at least 12 characters"
	if p := failed.GetProblem(); p.GetReason() != errorsv1.Reason_REASON_MANIFEST_INVALID || !strings.Contains(p.GetMessage(), want) ||
		strings.Contains(p.GetMessage(), "swordfish") {
		t.Errorf("problem: got %v, want %s", p, want)
	}
	if got := h.password(t); got != "swordfish-of-the-suite" {
		t.Errorf("the password in the cluster: got %q, want the one before", got)
	}
	h.apply(t, password("swordfish-again-of-the-suite"))
	h.waitService(t, "login", "healthy with another good secret", healthyAt(commit))
	if got := h.password(t); got != "swordfish-again-of-the-suite" {
		t.Errorf("the password in the cluster: got %q, want the latest", got)
	}
}

func (h *hub) kubeDelete(t *testing.T, path string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, h.cluster.Host()+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := h.cluster.HTTPClient().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("delete %s: got %d", path, response.StatusCode)
	}
}
