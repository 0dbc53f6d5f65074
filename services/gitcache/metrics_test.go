// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/otlptranslator"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/charttest"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/internal/testkit/signtest"
)

// documented is a row of the table of metrics in README.md.
type documented struct {
	kind   dto.MetricType
	values map[string][]string // by label; nil: too many to list
}

var (
	rowForm       = regexp.MustCompile("^\\| `(leat\\.[a-z._]+)` \\| (counter|histogram|gauge|updown), (\\S+) \\| (.*?) \\|")
	attributeForm = regexp.MustCompile("`([a-z._]+)`(?: \\(([a-z_, ]+)\\))?")
)

// readTable reads the table as Prometheus would name its metrics.
func readTable(t *testing.T) map[string]documented {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	namer := otlptranslator.MetricNamer{WithMetricSuffixes: true}
	labels := otlptranslator.LabelNamer{}
	rows := map[string]documented{}
	for line := range strings.SplitSeq(string(text), "\n") {
		row := rowForm.FindStringSubmatch(line)
		if row == nil {
			continue
		}
		kind := map[string]otlptranslator.MetricType{
			"counter": otlptranslator.MetricTypeMonotonicCounter, "histogram": otlptranslator.MetricTypeHistogram,
			"gauge": otlptranslator.MetricTypeGauge, "updown": otlptranslator.MetricTypeNonMonotonicCounter,
		}[row[2]]
		name, err := namer.Build(otlptranslator.Metric{Name: row[1], Unit: row[3], Type: kind})
		if err != nil {
			t.Fatal(err)
		}
		d := documented{values: map[string][]string{}, kind: map[string]dto.MetricType{
			"counter": dto.MetricType_COUNTER, "histogram": dto.MetricType_HISTOGRAM,
			"gauge": dto.MetricType_GAUGE, "updown": dto.MetricType_GAUGE,
		}[row[2]]}
		for _, a := range attributeForm.FindAllStringSubmatch(row[4], -1) {
			label, err := labels.Build(a[1])
			if err != nil {
				t.Fatal(err)
			}
			d.values[label] = nil
			if a[2] != "" {
				d.values[label] = strings.Split(a[2], ", ")
			}
		}
		rows[name] = d
	}
	return rows
}

// scrape returns our metrics of one replica.
func scrape(t *testing.T, r *replica) map[string]*dto.MetricFamily {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.internal+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(families, func(name string, _ *dto.MetricFamily) bool { return !strings.HasPrefix(name, "leat_") })
	return families
}

// rareMetric is shown after some twenty fetches and a minute, for which no test waits.
const rareMetric = "leat_mirror_compaction_duration_seconds"

// TestMetricsAreAsDocumented lets two replicas do everything once, and compares what they show with
// the table in README.md: names, kinds, units, attributes and the values of those.
func TestMetricsAreAsDocumented(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n"})
	replicas := []*replica{start(t, redis.URL(), t.TempDir()), start(t, redis.URL(), t.TempDir())}
	first := replicas[0]
	first.put(t, definition("demo", repo.URL()))
	first.put(t, definition("gone", repo.URL()+"/nowhere"))
	first.state(t, "demo", ready)
	first.state(t, "gone", func(s *gitcachev1.RepositoryState) bool { return s.GetProblem() != nil })
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 2\n"})
	first.refresh(t, "demo")
	for _, r := range replicas {
		snap := r.resolve(t, source("demo", "main", "app"))
		if _, _, err := r.download(t, &gitcachev1.DownloadBundleRequest{Repository: "demo", Digest: snap.GetDigest()}); err != nil {
			t.Fatal(err)
		}
	}
	post(t, first, "/webhooks/github")
	published, signer := charttest.New(t), signtest.NewChartSigner(t)
	published.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "unsigned"))
	def := charts(published.URL())
	def.Verification = &gitcachev1.Verification{ProvenanceKeys: signer.PublicKey(t)}
	first.put(t, def)
	first.state(t, "charts", ready)
	wantReason(t, first.tryResolve(t, chart("web", nil)), signatureRejected)

	table := readTable(t)
	delete(table, rareMetric)
	await.Success(t, "every metric of the table", func(context.Context) error { // the follower's copy takes its time
		if seen := len(union(scrape(t, replicas[0]), scrape(t, replicas[1]))); seen < len(table) {
			return fmt.Errorf("got %d metrics, want %d: %w", seen, len(table), errors.ErrUnsupported)
		}
		return nil
	})
	seen := union(scrape(t, replicas[0]), scrape(t, replicas[1]))
	if diff := cmp.Diff(slices.Sorted(maps.Keys(table)), slices.Sorted(maps.Keys(seen))); diff != "" {
		t.Errorf("metrics (-README.md +shown):\n%s", diff)
	}
	for name, row := range table {
		compareFamily(t, name, row, seen[name])
	}
}

// TestReadmeNamesMetricsThatExist checks the rules and the advice in README.md.
func TestReadmeNamesMetricsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	table := readTable(t)
	known := map[string]bool{}
	for name, row := range table {
		known[name] = true
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			known[name+suffix] = row.kind == dto.MetricType_HISTOGRAM
		}
		for label := range row.values {
			known[label] = true
		}
	}
	for _, name := range regexp.MustCompile("leat_[a-z_]+").FindAllString(string(text), -1) {
		if !known[name] {
			t.Errorf("README.md names %s, which is neither a metric nor a label", name)
		}
	}
}

func post(t *testing.T, r *replica, path string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

// union merges what two replicas show.
func union(a, b map[string]*dto.MetricFamily) map[string][]*dto.MetricFamily {
	all := map[string][]*dto.MetricFamily{}
	for _, families := range []map[string]*dto.MetricFamily{a, b} {
		for name, family := range families {
			all[name] = append(all[name], family)
		}
	}
	return all
}

func compareFamily(t *testing.T, name string, row documented, families []*dto.MetricFamily) {
	t.Helper()
	shown := map[string]bool{}
	for _, family := range families {
		if family.GetType() != row.kind {
			t.Errorf("%s: got a %s, want a %s", name, family.GetType(), row.kind)
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if strings.HasPrefix(label.GetName(), "otel_") {
					continue
				}
				shown[label.GetName()] = true
				if values := row.values[label.GetName()]; values != nil && !slices.Contains(values, label.GetValue()) {
					t.Errorf("%s: got %s=%q, want one of %q", name, label.GetName(), label.GetValue(), values)
				}
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(row.values)), slices.Sorted(maps.Keys(shown))); diff != "" && len(families) > 0 {
		t.Errorf("%s: labels (-README.md +shown):\n%s", name, diff)
	}
}
