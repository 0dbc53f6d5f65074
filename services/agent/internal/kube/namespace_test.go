// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/leatdev/leat/services/agent/internal/kube"
)

// TestAgentsShareACluster has two agents keep inventories, identities and Leases of the same names
// in one cluster, in namespaces of their own.
func TestAgentsShareACluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	leading, both := make(chan string, 2), make(chan struct{})
	ended := make(chan error, 2)
	for _, namespace := range []string{"one", "two"} {
		client, err := kube.New(kube.Params{
			Kubeconfig: c.cp.KubeconfigPath(), Namespace: namespace, UserAgent: userAgent, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		record := largeRecord("web", 1)
		record.ServiceUID = namespace
		if err := client.Inventories().Save(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		if got, err := client.Inventories().List(t.Context()); err != nil || len(got) != 1 || got[0].ServiceUID != namespace {
			t.Errorf("%s: got inventories %v, %v, want its own", namespace, got, err)
		}
		if err := client.Keep().Store(t.Context(), map[string][]byte{"key": []byte(namespace)}); err != nil {
			t.Fatal(err)
		}
		if files, err := client.Keep().Load(t.Context()); err != nil || string(files["key"]) != namespace {
			t.Errorf("%s: got identity %q, %v, want its own", namespace, files, err)
		}
		c.mustExist(t, "/api/v1/namespaces/"+namespace+"/configmaps/leat-inventory.web", "/api/v1/namespaces/"+namespace+"/secrets/leat-agent-identity")
		go func() {
			ended <- client.Leadership().Lead(t.Context(), kube.Election{Replica: "a"}, func(ctx context.Context, _ int) error {
				leading <- namespace
				<-both
				return nil
			})
		}()
	}
	if first, second := <-leading, <-leading; first == second {
		t.Errorf("%s leads twice, want each agent to lead", first)
	}
	close(both)
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	c.mustNotExist(t, "/api/v1/namespaces/leat-system/configmaps/leat-inventory.web")
}
