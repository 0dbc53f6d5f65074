// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package observability

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

const top = "../.."

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, path))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestFilesAreAsGenerated requires that the folders have the generated files, and no others.
func TestFilesAreAsGenerated(t *testing.T) {
	t.Parallel()
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if !bytes.Equal(read(t, name), want) {
			t.Errorf("%s differs from its source; run make dashboards manifests", name)
		}
	}
	for _, pattern := range []string{"deploy/dashboards/*", "deploy/prometheus/*"} {
		found, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("got %v, %v for %s", found, err, pattern)
		}
		for _, path := range found {
			name := filepath.Dir(pattern) + "/" + filepath.Base(path)
			if files[name] == nil {
				t.Errorf("%s has no source", name)
			}
		}
	}
}

// TestGrafanaLoadsDashboards reads each dashboard back, strictly, and requires what a reader needs of
// its panels.
func TestGrafanaLoadsDashboards(t *testing.T) {
	t.Parallel()
	registry := cog.NewRuntime()
	registry.RegisterPanelcfgVariant(timeseries.VariantConfig())
	registry.RegisterPanelcfgVariant(stat.VariantConfig())
	registry.RegisterDataqueryVariant(prometheus.VariantConfig())
	for _, b := range boards() {
		text := read(t, dashboardFolder+b.name+".json")
		err := new(dashboard.Dashboard).UnmarshalJSONStrict(text)
		if list, ok := errors.AsType[cog.BuildErrors](err); err != nil && (!ok || len(list) > 0) { // an empty list is no error
			t.Fatalf("%s: %v", b.name, err)
		}
		var loaded dashboard.Dashboard
		if err := json.Unmarshal(text, &loaded); err != nil {
			t.Fatalf("%s: %v", b.name, err)
		}
		if len(loaded.Panels) != len(b.panels) || len(b.panels) > 12 {
			t.Errorf("%s: got %d panels, want %d, and at most 12", b.name, len(loaded.Panels), len(b.panels))
		}
		taken := map[[2]uint32]string{}
		for _, panel := range loaded.Panels {
			p := panel.Panel
			switch {
			case p.Title == nil || p.Description == nil || !strings.HasSuffix(*p.Description, "."):
				t.Errorf("%s: panel %d needs a title, and a description that is a sentence", b.name, *p.Id)
			case p.FieldConfig.Defaults.Unit == nil || len(p.Targets) == 0:
				t.Errorf("%s: %q needs a unit and a query", b.name, *p.Title)
			}
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]uint32{x, y}]; other != "" || x >= 24 {
						t.Fatalf("%s: %q is on %q, or beside the grid", b.name, *p.Title, other)
					}
					taken[[2]uint32{x, y}] = *p.Title
				}
			}
		}
	}
}

// expressions returns every expression of dashboards and rules, by its place.
func expressions() map[string]string {
	all := map[string]string{}
	for _, b := range boards() {
		for _, p := range b.panels {
			for _, q := range p.queries {
				all[b.name+": "+p.title+": "+q.legend] = q.expr
			}
		}
		all[b.name+": variable"] = b.instances
	}
	for _, g := range groups() {
		for _, r := range g.Rules {
			all[g.Name+": "+r.Record+r.Alert] = r.Expr
		}
	}
	return all
}

var (
	metricRow    = regexp.MustCompile("(?m)^\\| `leat\\.[a-z_.]+` \\| `(leat_[a-z_]+)` \\| ([a-z]+) \\|")
	metricName   = regexp.MustCompile(`(^|[^a-z_:])(leat_[a-z_]+)\b`)
	recordedName = regexp.MustCompile(`leat:[a-z_]+:[a-z0-9_]+`)
	foreignName  = map[string]bool{"process_resident_memory_bytes": true, "go_goroutines": true}
)

// TestQueriesNameMetrics requires that each metric of a query exists, and that functions take the kind
// of metric that they need: the rate of a gauge, or a counter without its rate, means nothing.
func TestQueriesNameMetrics(t *testing.T) {
	t.Parallel()
	kinds := map[string]string{}
	for _, row := range metricRow.FindAllStringSubmatch(string(read(t, "docs/reference/metrics.md")), -1) {
		if row[2] != "histogram" {
			kinds[row[1]] = row[2]
			continue
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			kinds[row[1]+suffix] = "histogram" + suffix
		}
	}
	if len(kinds) < 50 {
		t.Fatalf("got %d metrics, want those of docs/reference/metrics.md", len(kinds))
	}
	recorded := map[string]bool{}
	for _, r := range groups()[0].Rules {
		recorded[r.Record] = true
	}
	for place, expr := range expressions() {
		named := 0
		for _, at := range metricName.FindAllStringSubmatchIndex(expr, -1) {
			before, name := expr[:at[4]], expr[at[4]:at[5]]
			if isLabel(expr, name) {
				continue
			}
			named++
			kind, isKnown := kinds[name]
			grows := kind == "counter" || strings.HasPrefix(kind, "histogram")
			isRated := strings.HasSuffix(before, "rate(") || strings.HasSuffix(before, "increase(")
			switch isVariable := strings.HasSuffix(place, ": variable"); {
			case !isKnown:
				t.Errorf("%s names %s, which docs/reference/metrics.md does not list", place, name)
			case !isVariable && grows != isRated:
				t.Errorf("%s: %s is a %s; its rate is taken: %v", place, name, kind, isRated)
			case strings.Contains(before, "histogram_quantile(") && kind != "histogram_bucket":
				t.Errorf("%s: histogram_quantile of %s, which is a %s", place, name, kind)
			case kind == "histogram_bucket" && !strings.Contains(before, "histogram_quantile(") && !strings.Contains(expr, "le=~"):
				t.Errorf("%s: the buckets of %s are neither a quantile nor a count below a bound", place, name)
			}
		}
		for _, name := range recordedName.FindAllString(expr, -1) {
			named++
			if !recorded[name] {
				t.Errorf("%s names %s, which no rule records", place, name)
			}
		}
		for name := range foreignName {
			named += strings.Count(expr, name)
		}
		if named == 0 {
			t.Errorf("%s names no metric: %s", place, expr)
		}
	}
}

// isLabel reports whether a name is a label of the expression: it is compared, or in a list of labels.
func isLabel(expr, name string) bool {
	return regexp.MustCompile(`[,{]`+name+`(=|!=)`).MatchString(expr) ||
		regexp.MustCompile(`(by|ignoring|on) \([a-z_, ]*\b`+name+`\b[a-z_, ]*\)`).MatchString(expr)
}

// TestAlertsHaveRunbooks requires a section for each alert, in the same order, and none without one.
func TestAlertsHaveRunbooks(t *testing.T) {
	t.Parallel()
	var want, got []string
	for _, a := range allAlerts() {
		want = append(want, a.name)
		if a.expr == "" || a.summary == "" || !strings.HasSuffix(a.summary, ".") || a.description == "" || !slices.Contains([]string{critical, warning, info}, a.severity) {
			t.Errorf("%s lacks an expression, a severity, or a sentence", a.name)
		}
	}
	page := string(read(t, "docs/operations/runbooks.md"))
	for _, section := range strings.Split(page, "\n### ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		if !strings.HasPrefix(name, "Leat") {
			continue
		}
		got = append(got, name)
		for _, part := range []string{"**Means:**", "**People notice:**", "**Look:**", "**Do:**", "**Ends:**"} {
			if !strings.Contains(text, part) {
				t.Errorf("the section of %s lacks %s", name, part)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the sections of runbooks.md differ from the alerts (-alerts +sections):\n%s", diff)
	}
}
