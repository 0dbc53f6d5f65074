// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/services/distributor"
)

func TestListWebhookDeliveries(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	want := []*gitcachev1.WebhookDelivery{{
		ReceiveTime: timestamppb.New(time.Unix(1, 0)), Provider: "github", Outcome: gitcachev1.WebhookOutcome_WEBHOOK_OUTCOME_ACCEPTED,
		Refs: []string{"refs/heads/main"},
	}}
	h.git.mu.Lock()
	h.git.deliveries = map[string][]*gitcachev1.WebhookDelivery{"demo": want}
	h.git.mu.Unlock()
	fleet := h.fleet(t, adminToken)
	res, err := fleet.ListWebhookDeliveries(t.Context(), &fleetv1.ListWebhookDeliveriesRequest{Name: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, res.GetDeliveries(), protocmp.Transform()); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
	_, err = fleet.ListWebhookDeliveries(t.Context(), &fleetv1.ListWebhookDeliveriesRequest{Name: "none"})
	wantReason(t, err, "NOT_FOUND")
	h.git.stop()
	_, err = fleet.ListWebhookDeliveries(t.Context(), &fleetv1.ListWebhookDeliveriesRequest{Name: "demo"})
	wantReason(t, err, "DEPENDENCY_UNAVAILABLE")
}

func TestServerInfoHasTheAddressOfWebhooks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ public, webhooks, want string }{
		"no public URL":         {"", "", ""},
		"of the public URL":     {"https://leat.example/", "", "https://leat.example/webhooks"},
		"an address of its own": {"https://leat.example", "https://hooks.example/leat/", "https://hooks.example/leat"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHub(t, func(c *distributor.Config) { c.PublicURL, c.GitCache.WebhookURL = test.public, test.webhooks })
			info, err := h.fleet(t, adminToken).GetServerInfo(t.Context(), &fleetv1.GetServerInfoRequest{})
			if err != nil || info.GetWebhookUrl() != test.want {
				t.Errorf("got %q, %v, want %q", info.GetWebhookUrl(), err, test.want)
			}
		})
	}
}
