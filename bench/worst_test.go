// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/leatdev/leat/bench/internal/edge"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
)

var (
	worstGlobals = flag.Int("worst.globals", 10, "global services of each apply of BenchmarkWorst")
	worstTime    = flag.Duration("worst.time", time.Minute, "how long BenchmarkWorst lists clusters in each phase")
)

// listEvery is the time between two lists.
const listEvery = 50 * time.Millisecond

// BenchmarkWorst has one person apply documents that cost as much as they may for every cluster,
// again and again, while another lists clusters at a steady rate. A list is timed from when it was
// due. It measures the same before that, after the distributor has started again with these
// documents, and with PostgreSQL at a second replica.
func BenchmarkWorst(b *testing.B) {
	if *fleetDir == "" && !*fleetPostgres {
		b.Fatal("-fleet.dir has to name a folder, or -fleet.postgres be set, so that the distributor can start again")
	}
	h := startHub(b)
	h.forgetWorst(b)
	defer h.forgetWorst(b)
	reader, bare := h.reader(b), startBare(b).url
	b.Run("alone", func(b *testing.B) { h.list(b, h.distributor, reader, bare, nil) })
	for _, phase := range []struct{ name, kind string }{ // each beside what the earlier ones left
		{"global services", "GlobalService"}, {"rollout policies", "RolloutPolicy"}, {"notifiers", "Notifier"},
	} {
		b.Run(phase.name, func(b *testing.B) { h.list(b, h.distributor, reader, bare, h.applyWorst(phase.kind)) })
	}
	b.Run("worst", func(b *testing.B) {
		h.list(b, h.distributor, reader, bare, h.applyWorst("GlobalService", "RolloutPolicy", "Notifier"))
	})
	if *fleetPostgres {
		b.Run("replica", func(b *testing.B) {
			second := h.startDistributor(b)
			h.list(b, second, reader, bare, h.applyWorst("GlobalService", "RolloutPolicy", "Notifier"))
		})
	}
	b.Run("start", func(start *testing.B) {
		h.distributor.Stop(start)
		h.startServices(b, h.database, "http://tunnel.invalid") // until the documents are deleted
		start.ReportMetric(h.distributor.readyAfter.Seconds(), "s/ready")
		h.list(start, h.distributor, reader, bare, nil)
	})
}

// reader returns the token of a person who may see everything.
func (h *hub) reader(b *testing.B) string {
	b.Helper()
	admin := edge.Connect(b, h.distributor.url, edge.AdminToken)
	fleet := fleetv1connect.NewFleetServiceClient(admin.HTTP, admin.BaseURL, admin.Options...)
	if _, err := fleet.Apply(b.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{
		fleetdoc.Of(&fleetv1.User{Metadata: &typev1.Metadata{Name: "reader"}, Spec: &fleetv1.UserSpec{}}),
		fleetdoc.Of(&fleetv1.AccessBinding{Metadata: &typev1.Metadata{Name: "reader"}, Spec: &fleetv1.AccessBindingSpec{
			Users: []string{"reader"}, Clusters: &fleetv1.ClusterSelection{All: true}, Role: typev1.AccessRole_ACCESS_ROLE_VIEWER,
		}}),
	}}); err != nil {
		b.Fatal(err)
	}
	made, err := fleet.CreateToken(b.Context(), &fleetv1.CreateTokenRequest{User: "reader", Label: time.Now().String()})
	if err != nil {
		b.Fatal(err)
	}
	return made.GetSecret()
}

// forgetWorst deletes the worst documents, which an earlier run may have left behind.
func (h *hub) forgetWorst(b *testing.B) {
	b.Helper()
	admin := edge.Connect(b, h.distributor.url, edge.AdminToken)
	ctx := context.WithoutCancel(b.Context())
	fleet := fleetv1connect.NewFleetServiceClient(admin.HTTP, admin.BaseURL, admin.Options...)
	for _, document := range worstDocuments(0, 0) {
		var err error
		switch {
		case document.GetGlobalService() != nil:
			_, err = fleet.Delete(ctx, &fleetv1.DeleteRequest{Kind: "GlobalService", Name: document.GetGlobalService().GetMetadata().GetName(), Cascade: true})
		case document.GetRolloutPolicy() != nil:
			err = fleetcalls.Delete[*fleetv1.RolloutPolicy](ctx, fleet, document.GetRolloutPolicy().GetMetadata().GetName())
		case document.GetNotifier() != nil:
			err = fleetcalls.Delete[*fleetv1.Notifier](ctx, fleet, document.GetNotifier().GetMetadata().GetName())
		}
		if err != nil && connect.CodeOf(err) != connect.CodeNotFound {
			b.Errorf("delete the worst documents: %v", err)
		}
	}
}

// list lists a page of 100 clusters of a replica at a steady rate, and reports how long that took. As often it
// asks a bare handler in a process of its own, which shows how much of that is the machine's. beside
// runs at the same time, if it is not nil, and returns what reports its figures.
func (h *hub) list(b *testing.B, replica *server, token, bareURL string, beside func(ctx context.Context, b *testing.B) (report func())) {
	b.Helper()
	through := edge.Connect(b, replica.url, token)
	fleet := fleetv1connect.NewFleetServiceClient(through.HTTP, through.BaseURL, through.Options...)
	ctx, cancel := context.WithTimeout(b.Context(), *worstTime)
	defer cancel()
	spent, begun := replica.CPU(b), time.Now()
	ask, report := askBare(bareURL, overHTTP2()), func() {}
	var bare []time.Duration
	var group sync.WaitGroup
	group.Go(func() { bare = steadily(ctx, b, ask) })
	if beside != nil {
		group.Go(func() { report = beside(ctx, b) })
	}
	lists := steadily(ctx, b, func(ctx context.Context) error {
		page, err := fleetcalls.List[*fleetv1.Cluster](ctx, fleet, &fleetv1.ListRequest{Page: &typev1.Page{Size: 100}})
		if err == nil && len(page.Objects) != 100 {
			err = fmt.Errorf("got %d clusters, want 100", len(page.Objects))
		}
		return err
	})
	group.Wait()
	report()
	for name, took := range map[string][]time.Duration{"": lists, "bare-": bare} {
		for unit, at := range map[string]int{"ms/p50": len(took) / 2, "ms/p99": len(took) * 99 / 100, "ms/longest": len(took) - 1} {
			b.ReportMetric(float64(took[at].Microseconds())/1000, name+unit)
		}
	}
	b.ReportMetric(float64(len(lists)), "lists")
	b.ReportMetric((replica.CPU(b)-spent).Seconds()/time.Since(begun).Seconds(), "cores")
	_, highest := replica.Memory(b)
	b.ReportMetric(float64(highest>>20), "peak-MiB")
}

// steadily calls at a steady rate until ctx is done, whether or not earlier calls were answered. It
// returns how long the calls took from when each was due, sorted.
func steadily(ctx context.Context, b *testing.B, call func(context.Context) error) []time.Duration {
	var mu sync.Mutex
	var took []time.Duration
	var group sync.WaitGroup
	for due := time.Now(); ctx.Err() == nil; due = due.Add(listEvery) {
		select {
		case <-ctx.Done():
			continue
		case <-time.After(time.Until(due)):
		}
		group.Go(func() {
			err := call(context.WithoutCancel(ctx))
			mu.Lock()
			defer mu.Unlock()
			if took = append(took, time.Since(due)); err != nil {
				b.Errorf("call: %v", err)
			}
		})
	}
	group.Wait()
	slices.Sort(took)
	return took
}

// applyWorst returns what applies the worst documents of some kinds until ctx is done. Of two rounds, one has other values, and
// one has other conditions as well, whose review may cost too much: that edit is refused.
func (h *hub) applyWorst(kinds ...string) func(ctx context.Context, b *testing.B) (report func()) {
	return func(ctx context.Context, b *testing.B) (report func()) { return h.applyKinds(ctx, b, kinds) }
}

func (h *hub) applyKinds(ctx context.Context, b *testing.B, kinds []string) (report func()) {
	admin := edge.Connect(b, h.distributor.url, edge.AdminToken)
	fleet := fleetv1connect.NewFleetServiceClient(admin.HTTP, admin.BaseURL, admin.Options...)
	accepted, refused, longest := 0, 0, time.Duration(0)
	for round := 0; ctx.Err() == nil; round++ {
		begun := time.Now()
		documents := slices.DeleteFunc(worstDocuments(round%2*round, round), func(d *fleetv1.Document) bool {
			return !slices.Contains(kinds, string(fleetdoc.Object(d).Descriptor().Name()))
		})
		_, err := fleet.Apply(ctx, &fleetv1.ApplyRequest{Documents: documents})
		switch {
		case err == nil:
			accepted++
		case connect.CodeOf(err) == connect.CodeFailedPrecondition:
			refused++
		case ctx.Err() == nil && connect.CodeOf(err) != connect.CodeDeadlineExceeded: // that of ctx, which the server was told
			b.Errorf("apply: %v", err)
			return func() {}
		}
		longest = max(longest, time.Since(begun))
		fmt.Fprintf(os.Stderr, "apply %d took %s: %v\n", round, time.Since(begun), err)
	}
	return func() {
		b.ReportMetric(float64(accepted), "accepted")
		b.ReportMetric(float64(refused), "refused")
		b.ReportMetric(longest.Seconds(), "s/longest-apply")
	}
}

// worstDocuments are global services for all clusters whose condition, overrides and values cost
// little less than they may together, rollout policies of as many waves as there may be, and
// notifiers whose texts cost little less than they may. Each round has other documents, and each
// condition another condition.
func worstDocuments(condition, round int) []*fleetv1.Document {
	var all []*fleetv1.Document
	for i := range *worstGlobals {
		spec := &fleetv1.GlobalServiceSpec{
			Clusters: &fleetv1.ClusterTarget{When: fmt.Sprintf("lists.range(1900).all(a, a >= -%d)", condition)},
			Template: &fleetv1.ServiceSpec{
				Sources: []*typev1.Source{{Repository: "apps", Path: sharedFolder}}, Config: &fleetv1.ServiceConfig{Values: map[string]string{}},
			},
		}
		for j := range 11 {
			spec.Template.Config.Values[fmt.Sprintf("V%02d", j)] = costly(round, j)
		}
		for j := range 64 {
			spec.Overrides = append(spec.Overrides, &fleetv1.ServiceOverride{
				Name: fmt.Sprintf("o-%02d", j), Clusters: &fleetv1.ClusterTarget{When: fmt.Sprintf("lists.range(20).all(a, a >= -%d)", condition)}, DryRun: new(j%2 == 0),
			})
		}
		all = append(all, fleetdoc.Of(&fleetv1.GlobalService{Metadata: &typev1.Metadata{Name: fmt.Sprintf("worst-%03d", i)}, Spec: spec}))
	}
	for i := range 2 {
		policy := &fleetv1.RolloutPolicySpec{Services: []string{fmt.Sprintf("worst-%03d*", i)}, MaxUnavailable: fmt.Sprint(round%50 + 1)}
		for wave := range 32 {
			var clusters []string
			for j := range 256 {
				clusters = append(clusters, clusterName((wave*256+j)%*fleetClusters))
			}
			policy.Waves = append(policy.Waves, &fleetv1.RolloutWave{Name: fmt.Sprintf("w-%02d", wave), Clusters: clusters})
		}
		all = append(all, fleetdoc.Of(&fleetv1.RolloutPolicy{Metadata: &typev1.Metadata{Name: fmt.Sprintf("worst-%02d", i)}, Spec: policy}))
	}
	for i := range 16 {
		all = append(all, fleetdoc.Of(&fleetv1.Notifier{Metadata: &typev1.Metadata{Name: fmt.Sprintf("worst-%02d", i)}, Spec: &fleetv1.NotifierSpec{
			Text: fmt.Sprintf("lists.range(1500).all(a, a >= -%d) ? self.cause : ''", round), MaxPerMinute: 600, GroupWindow: durationpb.New(time.Second),
			Sink: &fleetv1.NotifierSpec_Webhook{Webhook: &fleetv1.WebhookSink{Url: new("https://hook.invalid/" + strings.Repeat("x", 100))}},
		}}))
	}
	return all
}

// costly is a text whose expression costs some 15,000 of CEL's units.
func costly(round, i int) string {
	return fmt.Sprintf("${{ lists.range(40).all(a, lists.range(40).all(b, a + b >= -%d)) ? self.name : '%d' }}", round, i)
}
