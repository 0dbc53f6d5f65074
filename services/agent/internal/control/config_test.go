// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/rpctest"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/control"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// configHub returns one configuration, or an error.
type configHub struct {
	planHub

	mu     sync.Mutex
	calls  int
	answer *distributorv1.GetServiceConfigResponse
	err    error
}

func (h *configHub) GetServiceConfig(context.Context, *distributorv1.GetServiceConfigRequest) (*distributorv1.GetServiceConfigResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	return h.answer, h.err
}

func (h *configHub) set(answer *distributorv1.GetServiceConfigResponse, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer, h.err = answer, err
}

func (h *configHub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls
}

// openConfigs opens the configurations of a started agent.
func openConfigs(t *testing.T, h *configHub, dir string) *control.Configs {
	t.Helper()
	_, handler := distributorv1connect.NewDistributorServiceHandler(h)
	url, client := rpctest.Serve(t, handler)
	hub := distributorv1connect.NewDistributorServiceClient(client, url)
	logger := slog.New(slog.DiscardHandler)
	me, err := control.OpenIdentity(control.IdentityParams{Dir: dir, Hub: hub, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	configs, err := control.OpenConfigs(control.ConfigParams{Dir: dir, Hub: hub, Identity: me, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	return configs
}

func configured(digest string) plan.Service {
	return plan.Service{Name: "app", UID: "uid-app", ConfigDigest: digest}
}

func configOf(digest, secret string) *distributorv1.GetServiceConfigResponse {
	return &distributorv1.GetServiceConfigResponse{
		ConfigDigest: digest, Values: map[string]string{"A": "1"}, Secrets: map[string][]byte{"PASSWORD": []byte(secret)},
	}
}

func variablesWith(secret string) manifest.Configuration {
	return manifest.Configuration{Variables: render.Variables{Values: map[string]string{"A": "1"}, Secrets: map[string]string{"PASSWORD": secret}}}
}

func mustGive(t *testing.T, configs *control.Configs, s plan.Service, want manifest.Configuration) {
	t.Helper()
	got, err := configs.Config(t.Context(), s)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%s: got %v (-want +got):\n%s", s.ConfigDigest, err, diff)
	}
}

func mustRefuse(t *testing.T, configs *control.Configs, s plan.Service, words string) {
	t.Helper()
	_, err := configs.Config(t.Context(), s)
	problem, ok := errors.AsType[*reason.Problem](err)
	if !ok || problem.Reason != reason.DependencyUnavailable || !strings.Contains(problem.Message, words) || !errors.Is(err, manifest.ErrUnanswered) {
		t.Errorf("%s: got %v, want DEPENDENCY_UNAVAILABLE with %q, and that it is the hub's", s.ConfigDigest, err, words)
	}
}

// stored reads all files of the agent's folder.
func stored(t *testing.T, dir string) (files map[string][]byte) {
	t.Helper()
	files = map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestConfigIsFetchedOnceAndKeptSealed(t *testing.T) {
	t.Parallel()
	h, dir := &configHub{}, t.TempDir()
	h.set(configOf("one", "hunter2-of-the-hub"), nil)
	configs := openConfigs(t, h, dir)
	for range 3 {
		mustGive(t, configs, configured("one"), variablesWith("hunter2-of-the-hub"))
	}
	h.set(configOf("two", "hunter3-of-the-hub"), nil)
	mustGive(t, configs, configured("two"), variablesWith("hunter3-of-the-hub"))
	if got := h.count(); got != 2 {
		t.Errorf("got %d calls for two configurations", got)
	}
	for path, content := range stored(t, dir) {
		if bytes.Contains(content, []byte("hunter")) || bytes.Contains(content, []byte("PASSWORD")) {
			t.Errorf("the secret stands in %s", path)
		}
	}

	// A restart without the hub uses only the stored configuration.
	h.set(nil, rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE, "the database does not answer"))
	configs = openConfigs(t, h, dir)
	mustGive(t, configs, configured("two"), variablesWith("hunter3-of-the-hub"))
	mustRefuse(t, configs, configured("three"), "the database does not answer (DEPENDENCY_UNAVAILABLE)")
	mustGive(t, configs, configured("two"), variablesWith("hunter3-of-the-hub"))
	another := configured("two")
	another.UID = "uid-of-a-later-one"
	mustRefuse(t, configs, another, "database")
}

func TestConfigOfAnotherDigestIsNotTaken(t *testing.T) {
	t.Parallel()
	h := &configHub{}
	h.set(configOf("newer", "secret"), nil)
	configs := openConfigs(t, h, t.TempDir())
	mustRefuse(t, configs, configured("older"), "a new plan follows")
	calls := h.count()
	mustGive(t, configs, configured("newer"), variablesWith("secret"))
	if h.count() != calls {
		t.Error("what was fetched already is fetched again")
	}
}

// TestConfigOnADamagedDisk flips every byte of the stored files, and removes the key. The agent
// never uses a wrong configuration, and asks the hub instead.
func TestConfigOnADamagedDisk(t *testing.T) {
	t.Parallel()
	h, dir := &configHub{}, t.TempDir()
	h.set(configOf("one", "secret"), nil)
	configs := openConfigs(t, h, dir)
	mustGive(t, configs, configured("one"), variablesWith("secret"))
	path := filepath.Join(dir, "configs", "app.sealed")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range content {
		damaged := bytes.Clone(content)
		damaged[i] ^= 1
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		calls := h.count()
		mustGive(t, configs, configured("one"), variablesWith("secret"))
		if h.count() != calls+1 {
			t.Fatalf("byte %d: the damage was not seen", i)
		}
	}
	if err := os.Remove(filepath.Join(dir, "agent.key")); err != nil {
		t.Fatal(err)
	}
	h.set(nil, errors.New("away"))
	mustRefuse(t, openConfigs(t, h, dir), configured("one"), "")
}

func TestConfigIsKeptNoLongerThanPlanned(t *testing.T) {
	t.Parallel()
	h, dir := &configHub{}, t.TempDir()
	h.set(configOf("one", "secret"), nil)
	if err := os.MkdirAll(filepath.Join(dir, "configs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "configs", ".app.sealed-123"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	configs := openConfigs(t, h, dir)
	odd := configured("one")
	odd.Name = "../../x"
	mustGive(t, configs, configured("one"), variablesWith("secret"))
	mustGive(t, configs, odd, variablesWith("secret"))
	list := func() (names []string) {
		entries, err := os.ReadDir(filepath.Join(dir, "configs"))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return names
	}
	if diff := cmp.Diff([]string{"..%2F..%2Fx.sealed", "app.sealed"}, list()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	configs.Retain(t.Context(), plan.Plan{Services: []plan.Service{configured("two")}})
	if diff := cmp.Diff([]string{"app.sealed"}, list()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	configs.Retain(t.Context(), plan.Plan{Services: []plan.Service{configured("")}})
	if got := list(); len(got) != 0 {
		t.Errorf("got %v, want nothing kept of a service without a configuration", got)
	}
}
