// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// fetchBundle downloads a bundle as people do.
func (h *hub) fetchBundle(t *testing.T, token, service, digest string) ([]byte, error) {
	t.Helper()
	stream, err := h.fleet(t, token).DownloadServiceBundle(t.Context(), &fleetv1.DownloadServiceBundleRequest{Service: service, Digest: digest})
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	var content []byte
	for stream.Receive() {
		content = append(content, stream.Msg().GetChunk()...)
	}
	return content, stream.Err()
}

// TestServicePlanIsWhatTheAgentGets asks for a service as a person, and compares it with the plan of
// the cluster's agent.
func TestServicePlanIsWhatTheAgentGets(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", strings.Repeat("a manifest", 100_000))
	content.snapshot.Version = "v1.4.2"
	h.demo(t, content)
	cluster := clusterDocument("one")
	cluster.GetCluster().Metadata.Labels = map[string]string{"region": "eu"}
	h.apply(t, cluster, configDocument("app", "one", map[string]string{"REPLICAS": "3"}, map[string]string{"PASSWORD": hunter2}))
	agent := h.enrol(t, "one")
	stream := h.watchPlan(t, agent.token, "")
	planned, _ := stream.configDigest(t, "app", "")
	for len(entryOf(planned, "app").GetBundles()) == 0 {
		planned = stream.next(t)
	}
	agent.report(t, h, 1, "v0.5.0")

	got, err := h.fleet(t, adminToken).GetServicePlan(t.Context(), &fleetv1.GetServicePlanRequest{Name: "app"})
	if err != nil {
		t.Fatal(err)
	}
	want := &fleetv1.GetServicePlanResponse{
		Cluster: "one", Service: entryOf(planned, "app"), Facts: &typev1.ClusterFacts{Labels: map[string]string{"region": "eu"}},
		Config: &fleetv1.ServiceConfig{Values: map[string]string{"REPLICAS": "3"}, Secrets: map[string]string{"PASSWORD": ""}},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(&distributorv1.PlanService{}, "traceparent")); diff != "" {
		t.Errorf("plan of the service (-want +got):\n%s", diff)
	}
	bundle, err := h.fetchBundle(t, adminToken, "app", content.snapshot.GetDigest())
	if err != nil || !bytes.Equal(bundle, content.bytes) {
		t.Errorf("got %d bytes, %v, want the bundle's %d", len(bundle), err, len(content.bytes))
	}
	_, err = h.fleet(t, adminToken).GetServicePlan(t.Context(), &fleetv1.GetServicePlanRequest{Name: "none"})
	wantReason(t, err, "NOT_FOUND")
	_, err = h.fetchBundle(t, adminToken, "app", "sha256:none")
	wantReason(t, err, "FIELD_INVALID")
}

// TestSecServicePlansHoldNoSecret asks for the plan of a service with a secret, and for bundles of
// other services, as an administrator and as others.
func TestSecServicePlansHoldNoSecret(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content, other := newFolder(t, "c1", "one"), newFolder(t, "c1", "another")
	h.git.set("demo", "other", other)
	h.demo(t, content)
	h.apply(t, serviceDocument("other", "one", "demo", "other"), configDocument("app", "one", nil, map[string]string{"PASSWORD": hunter2}))
	agent := h.enrol(t, "one")
	h.watchPlan(t, agent.token, "").nextWith(t, other.snapshot.GetDigest())

	got, err := h.fleet(t, adminToken).GetServicePlan(t.Context(), &fleetv1.GetServicePlanRequest{Name: "app"})
	if err != nil {
		t.Fatal(err)
	}
	if text := protojson.Format(got); strings.Contains(text, hunter2) || !strings.Contains(text, "PASSWORD") {
		t.Errorf("got %s, want the secret's key alone", text)
	}
	_, err = h.fetchBundle(t, adminToken, "app", other.snapshot.GetDigest())
	wantReason(t, err, "BUNDLE_NOT_FOUND")
	for name, token := range map[string]string{"an agent": agent.token, "a service": serviceToken(t)} {
		if _, err := h.fleet(t, token).GetServicePlan(t.Context(), &fleetv1.GetServicePlanRequest{Name: "app"}); err == nil {
			t.Errorf("%s was shown the plan", name)
		} else {
			wantReason(t, err, "ACCESS_DENIED")
		}
		if content, err := h.fetchBundle(t, token, "app", content.snapshot.GetDigest()); err == nil || len(content) > 0 {
			t.Errorf("%s was sent %d bytes of the bundle", name, len(content))
		}
	}
}
