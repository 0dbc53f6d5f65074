// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/agent"
)

// GetServiceConfig implements DistributorService.
func (h *hub) GetServiceConfig(ctx context.Context, r *distributorv1.GetServiceConfigRequest) (*distributorv1.GetServiceConfigResponse, error) {
	if err := h.caller(ctx); err != nil {
		return nil, err
	}
	var config *distributorv1.GetServiceConfigResponse
	h.change(func() {
		h.asked++
		config = h.configs[r.GetService()]
	})
	if config == nil {
		return nil, rpcerr.New(connect.CodeNotFound, errorsv1.Reason_REASON_NOT_FOUND, "service not found")
	}
	return config, nil
}

// configure gives a service of the plan another secret, and everything else as it was.
func (h *hub) configure(service, secret string) (digest string) {
	digest = fmt.Sprintf("hmac-sha256:%d", time.Now().UnixNano())
	h.change(func() {
		if h.configs == nil {
			h.configs = map[string]*distributorv1.GetServiceConfigResponse{}
		}
		h.configs[service] = &distributorv1.GetServiceConfigResponse{ConfigDigest: digest, Secrets: map[string][]byte{"PASSWORD": []byte(secret)}}
		h.plan = proto.CloneOf(h.plan)
		for _, s := range h.plan.GetServices() {
			if s.GetName() == service {
				s.ConfigDigest = digest
			}
		}
		h.plan.Version = digest
	})
	return digest
}

func configIs(digest string) func(*distributorv1.ServiceReport) bool {
	return func(got *distributorv1.ServiceReport) bool {
		return got.GetPhase() == healthy && got.GetAppliedConfigDigest() == digest
	}
}

// notes keeps the log.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// TestConfiguration has one secret change after another, and then everything but the agent's disk
// go away.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	cp, h, dir, log := kubetest.Borrow(t), newHub(t), t.TempDir(), &notes{}
	noted := func(c *agent.Config) { c.Telemetry.LogOutput = io.MultiWriter(t.Output(), log) }
	stop := startAgent(t, cp, h.url(), dir, joinToken, noted)

	// Without a configuration an expression is text like any other.
	d := h.deploy(t, "conf", map[string]string{"a.yaml": configMap("conf-a", "${PASSWORD}")})
	h.awaitReport(t, "conf", phase(healthy, d))
	assertValue(t, cp, "conf-a", "${PASSWORD}")

	// Secrets come and change without a bundle being downloaded, and each is asked for once.
	for _, secret := range []string{"hunter2-of-the-plan", "hunter3-of-the-plan"} {
		h.awaitReport(t, "conf", configIs(h.configure("conf", secret)))
		assertValue(t, cp, "conf-a", secret)
	}
	if len(h.ranges) != 1 || h.asked != 2 {
		t.Errorf("got %d downloads and %d questions for configurations, want 1 and 2", len(h.ranges), h.asked)
	}

	// The hub changes its mind, and then cannot resolve its content: the applied state stays, and the
	// status has the reason.
	kept := h.configure("conf", "hunter4-of-the-plan")
	h.awaitReport(t, "conf", configIs(kept))
	h.change(func() { h.configs = nil })
	h.change(func() {
		h.plan = proto.CloneOf(h.plan)
		h.plan.Services[0].ConfigDigest, h.plan.Version = "hmac-sha256:nobody-knows", "unknown"
	})
	got := h.awaitReport(t, "conf", phase(failed, ""))
	if got.GetProblem().GetReason() != errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE || got.GetAppliedConfigDigest() != kept {
		t.Errorf("got %v, want DEPENDENCY_UNAVAILABLE and the last configuration", got)
	}
	assertValue(t, cp, "conf-a", "hunter4-of-the-plan")
	h.change(func() {
		h.plan = proto.CloneOf(h.plan)
		h.plan.Services[0].ConfigDigest, h.plan.Version = kept, "back"
	})
	h.awaitReport(t, "conf", configIs(kept))
	stop()
	h.stop()

	// Started without its hub, and with its objects gone, the agent renders the same from its disk.
	remove(t, cp, "/api/v1/namespaces/leat-system/configmaps/leat-inventory.conf")
	remove(t, cp, "/api/v1/namespaces/default/configmaps/conf-a")
	stop = startAgent(t, cp, h.url(), dir, "", noted)
	awaitValue(t, cp, "conf-a", "hunter4-of-the-plan")
	stop()

	assertNoSecrets(t, cp.Host()+"/api/v1/namespaces/leat-system/configmaps", cp.HTTPClient(), dir)
	if strings.Contains(log.text.String(), "hunter") {
		t.Error("the secret was logged")
	}
}

// assertNoSecrets looks through the inventories and the agent's disk.
func assertNoSecrets(t *testing.T, inventories string, client *http.Client, dir string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, inventories, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || !bytes.Contains(content, []byte("leat-inventory.conf")) || bytes.Contains(content, []byte("hunter")) {
		t.Errorf("got %v, want inventories without secrets:\n%s", err, content)
	}
	sealed := 0
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte("hunter")) {
			t.Errorf("a secret stands in %s", path)
		}
		if strings.HasSuffix(path, ".sealed") {
			sealed++
		}
		return err
	})
	if err != nil || sealed != 2 {
		t.Errorf("got %d sealed files, %v, want one of the configuration and one of fingerprints", sealed, err)
	}
}
