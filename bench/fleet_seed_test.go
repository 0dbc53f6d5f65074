// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/bench/internal/edge"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
)

const (
	// documentsPerApply is the limit of documents in one call.
	documentsPerApply = 1000
	// joining is how many agents enrol or connect at once.
	joining = 32
)

func clusterName(i int) string { return fmt.Sprintf("cluster-%05d", i) }

// keyOf returns the agent's key, which a later run has to reproduce.
func keyOf(cluster string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("the key of the agent of " + cluster))
	return ed25519.NewKeyFromSeed(seed[:])
}

// seed fills the catalog and enrols the agents through the public calls, except for the clusters
// that an earlier run left behind.
func (h *hub) seed(b *testing.B) {
	b.Helper()
	admin := edge.Connect(b, h.distributor.url, edge.AdminToken)
	fleet := fleetv1connect.NewFleetServiceClient(admin.HTTP, admin.BaseURL, admin.Options...)
	documents := []*fleetv1.Document{{Object: &fleetv1.Document_Repository{Repository: &fleetv1.Repository{
		Metadata: &typev1.Metadata{Name: "apps"}, Spec: &fleetv1.RepositorySpec{Url: h.repository.URL()},
	}}}}
	last := clusterName(*fleetClusters - 1)
	known, err := fleetcalls.Get[*fleetv1.Cluster](b.Context(), fleet, last)
	seeded := err == nil && known.GetStatus().GetEnrolled()
	if !seeded {
		for i := range *fleetClusters {
			documents = append(documents, clusterDocuments(clusterName(i))...)
		}
		for i := range *fleetGlobals {
			documents = append(documents, globalDocument(i))
		}
	}
	begun := time.Now()
	for chunk := range slices.Chunk(documents, documentsPerApply) {
		if _, err := fleet.Apply(b.Context(), &fleetv1.ApplyRequest{Documents: chunk}); err != nil {
			b.Fatal(err)
		}
	}
	fmt.Fprintf(os.Stderr, "applied after %s\n", time.Since(begun))
	if !seeded {
		h.enrol(b, fleet)
	}
	fmt.Fprintf(os.Stderr, "enrolled after %s\n", time.Since(begun))
}

func clusterDocuments(cluster string) []*fleetv1.Document {
	documents := []*fleetv1.Document{fleetdoc.Of(&fleetv1.Cluster{Metadata: &typev1.Metadata{
		Name: cluster, Labels: map[string]string{"tier": "edge", "region": "eu"},
	}})}
	if *fleetGlobals > 0 {
		return documents
	}
	for i := range servicesPerPlan {
		folder := fmt.Sprintf("app-%02d", i)
		documents = append(documents, &fleetv1.Document{Object: &fleetv1.Document_Service{Service: &fleetv1.Service{
			Metadata: &typev1.Metadata{Name: cluster + "-" + folder},
			Spec:     &fleetv1.ServiceSpec{Cluster: cluster, Sources: []*typev1.Source{{Repository: "apps", Path: folder}}},
		}}})
	}
	return documents
}

// globalDocument selects all clusters by a label. It has a parameter in its namespace, a value of its own
// for each cluster in every tenth, and an override.
func globalDocument(i int) *fleetv1.Document {
	folder := fmt.Sprintf("app-%02d", i)
	template := &fleetv1.ServiceSpec{
		Sources:   []*typev1.Source{{Repository: "apps", Path: folder}},
		Namespace: "ns-${{ self.labels.region }}",
	}
	if i%10 == 0 {
		template.Config = &fleetv1.ServiceConfig{Values: map[string]string{"NAME": "${{ self.name }}"}}
	}
	return fleetdoc.Of(&fleetv1.GlobalService{
		Metadata: &typev1.Metadata{Name: folder},
		Spec: &fleetv1.GlobalServiceSpec{
			Clusters:  &fleetv1.ClusterTarget{Labels: &fleetv1.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}}},
			Template:  template,
			Overrides: []*fleetv1.ServiceOverride{{Name: "eu", Clusters: &fleetv1.ClusterTarget{When: "self.labels.region == 'eu'"}, DryRun: new(false)}},
		},
	})
}

// enrol has the agents join. The last one joins last, because it shows the next run that all have.
func (h *hub) enrol(b *testing.B, fleet fleetv1connect.FleetServiceClient) {
	b.Helper()
	through := edge.Connect(b, h.distributor.url, "")
	agents := distributorv1connect.NewDistributorServiceClient(through.HTTP, through.BaseURL, through.Options...)
	join := func(cluster string) error {
		joined, err := fleet.CreateJoinToken(b.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: cluster})
		if err != nil {
			return err
		}
		public, _ := keyOf(cluster).Public().(ed25519.PublicKey)
		return patiently(b.Context(), func(ctx context.Context) error {
			_, err := agents.Enroll(ctx, &distributorv1.EnrollRequest{JoinToken: joined.GetJoinToken(), PublicKey: public})
			return err
		})
	}
	var group errgroup.Group
	group.SetLimit(joining)
	for i := range *fleetClusters - 1 {
		group.Go(func() error { return join(clusterName(i)) })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	if err := join(clusterName(*fleetClusters - 1)); err != nil {
		b.Fatal(err)
	}
}
