// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/services/agent"
)

func TestServiceListThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, list := range []string{"shop/*:80", "web:80", "shop/web:http", "shop/web:80,shop/db"} {
		var cfg agent.Config
		set := config.New("agent", func(string) (string, bool) { return "", false })
		cfg.Bind(set)
		err := set.Parse([]string{"--agent-hub-url", "http://hub", "--agent-service-proxy-allow", list})
		if err == nil || !strings.Contains(err.Error(), "agent-service-proxy-allow") || !strings.Contains(err.Error(), "namespace/service:port") {
			t.Errorf("%s: got %v, want an error that names the setting and its form", list, err)
		}
	}
}

func TestServicesAreToldAmongWhatAnAgentCanDo(t *testing.T) {
	t.Parallel()
	with := agent.Capabilities(agent.Config{ServiceProxyAllow: []string{"shop/web:80"}})
	without := agent.Capabilities(agent.Config{})
	if !slices.Contains(with, "service-proxy") || slices.Contains(without, "service-proxy") || !slices.IsSorted(with) {
		t.Errorf("got %v with a list and %v without", with, without)
	}
}

func TestNamespaceMustBeAName(t *testing.T) {
	t.Parallel()
	for namespace, want := range map[string]string{"leat-system": "", "team-1": "", "Team": "--agent-namespace", "a/b": "--agent-namespace"} {
		var cfg agent.Config
		set := config.New("agent", func(string) (string, bool) { return "", false })
		cfg.Bind(set)
		err := set.Parse([]string{"--agent-hub-url", "http://hub", "--agent-namespace", namespace})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", namespace, err, want)
		}
	}
}

// TestSettingsOfEnrolmentAreChecked: a name is one of a cluster, and an agent that the hub dials has no
// use for a bootstrap token, or for the tunnel's URL.
func TestSettingsOfEnrolmentAreChecked(t *testing.T) {
	t.Parallel()
	dialled := []string{"--agent-listen-tunnel-addr", ":8443", "--agent-hub-keys", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}
	dials := []string{"--agent-hub-url", "http://hub"}
	for name, test := range map[string]struct {
		join string
		args []string
		want string
	}{
		"a name":                         {"leatboot_x", append([]string{"--agent-cluster", "edge-1"}, dials...), ""},
		"a name in capitals":             {"leatboot_x", append([]string{"--agent-cluster", "Edge"}, dials...), "--agent-cluster"},
		"a name with a project":          {"leatboot_x", append([]string{"--agent-cluster", "shop/edge"}, dials...), "--agent-cluster"},
		"a bootstrap token":              {"leatboot_x", dials, ""},
		"a bootstrap token, and dialled": {"leatboot_x", dialled, "--agent-join-token"},
		"a join token, and dialled":      {"leatjoin_x", dialled, ""},
		"a tunnel":                       {"leatjoin_x", append([]string{"--agent-tunnel-url", "https://front:8443"}, dials...), ""},
		"a tunnel without a scheme":      {"leatjoin_x", append([]string{"--agent-tunnel-url", "front:8443"}, dials...), "--agent-tunnel-url"},
		"a tunnel, and dialled":          {"leatjoin_x", append([]string{"--agent-tunnel-url", "https://front:8443"}, dialled...), "--agent-tunnel-url"},
	} {
		var cfg agent.Config
		set := config.New("agent", func(name string) (string, bool) { return test.join, name == "LEAT_AGENT_JOIN_TOKEN" })
		cfg.Bind(set)
		err := set.Parse(test.args)
		if (err == nil) != (test.want == "") || err != nil && (!strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), test.join)) {
			t.Errorf("%s: got %v, want an error with %q", name, err, test.want)
		}
	}
}
