// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agentmanifest_test

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/cli/internal/agentmanifest"
	"github.com/leatdev/leat/internal/runtime/app"
)

func TestRender(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		params  agentmanifest.Params
		added   []string
		want    map[string]string // of the variables that differ
		mounted bool
	}{
		"an agent that dials": {
			params: agentmanifest.Params{JoinToken: "join: me", HubURL: "https://hub.example.com", Release: "1.2.3"},
			want:   map[string]string{"LEAT_AGENT_HUB_URL": "https://hub.example.com"},
		},
		"a hub with an authority of its own": {
			params: agentmanifest.Params{JoinToken: "join: me", HubURL: "https://hub.example.com", HubCA: []byte("-----BEGIN\nx\n")},
			added:  []string{"ConfigMap/leat-agent-hub-ca"}, mounted: true,
			want: map[string]string{"LEAT_AGENT_HUB_URL": "https://hub.example.com", "LEAT_AGENT_HUB_CA_FILE": "/run/leat/hub-ca/ca.crt"},
		},
		"an agent that is dialled": {
			params: agentmanifest.Params{JoinToken: "join: me", HubKeys: []string{"a", "b"}},
			added:  []string{"NetworkPolicy/leat-agent-tunnel", "Service/leat-agent"},
			want:   map[string]string{"LEAT_AGENT_LISTEN_TUNNEL_ADDR": ":8443", "LEAT_AGENT_HUB_KEYS": "a,b"},
		},
	} {
		text, err := agentmanifest.Render(c.params)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		objects := map[string]string{}
		for document := range strings.SplitSeq(text, "\n---\n") {
			var o struct {
				Kind     string
				Metadata struct{ Name string }
			}
			if err := yaml.Unmarshal([]byte(document), &o); err != nil {
				t.Fatalf("%s: %v in\n%s", name, err, document)
			}
			objects[o.Kind+"/"+o.Metadata.Name] = document
		}
		for _, want := range append(c.added, "Namespace/leat-system", "ServiceAccount/leat-agent", "ClusterRoleBinding/leat-agent", "Secret/leat-agent-join") {
			if objects[want] == "" {
				t.Errorf("%s: got %v, want %s among them", name, slices.Sorted(maps.Keys(objects)), want)
			}
		}
		var secret corev1.Secret
		var deployment appsv1.Deployment
		for id, into := range map[string]any{"Secret/leat-agent-join": &secret, "Deployment/leat-agent": &deployment} {
			if err := yaml.UnmarshalStrict([]byte(objects[id]), into); err != nil {
				t.Fatalf("%s: %s: %v", name, id, err)
			}
		}
		if secret.StringData["token"] != c.params.JoinToken || secret.Namespace != deployment.Namespace {
			t.Errorf("%s: got Secret %+v, want the token", name, secret)
		}
		spec := deployment.Spec.Template.Spec
		if image, want := spec.Containers[0].Image, "ghcr.io/leatdev/leat/agent:"+cmp.Or(c.params.Release, app.Version()); image != want {
			t.Errorf("%s: got image %s, want %s", name, image, want)
		}
		got := map[string]string{}
		for _, e := range spec.Containers[0].Env {
			if e.Name != "LEAT_LISTEN_ADDR" && e.Value != "" && (strings.Contains(e.Name, "HUB") || strings.Contains(e.Name, "TUNNEL")) {
				got[e.Name] = e.Value
			}
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: got settings %v, want %v", name, got, c.want)
		}
		if mounted := slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.ConfigMap != nil }); mounted != c.mounted {
			t.Errorf("%s: an authority is mounted: %t", name, mounted)
		}
		if strings.Contains(text, "leat.example.com") {
			t.Errorf("%s: the manifest still has the example's address", name)
		}
	}
}
