// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helm_test

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/golden"
	"github.com/leatdev/leat/render/rendertest"
)

// ownDifferences are the charts of Helm's tests whose result is another one here on purpose, with the
// reason.
var ownDifferences = func() map[string]string {
	const (
		testcharts = "pkg/cmd/testdata/testcharts/"
		rules      = "pkg/chart/v2/lint/rules/testdata/"
		action     = "pkg/action/testdata/charts/"
		noObject   = "a template makes a document without kind; Leat refuses it, as an API server would"
		noText     = "a label is a number; Leat refuses it, as an API server would"
		random     = "passwords and the name of a test are random"
	)
	return map[string]string{
		testcharts + "issue-9027": noObject, rules + "withsubchart": noObject, rules + "goodone": noObject,
		action + "multiplecharts-lint-chart-1": noObject, action + "multiplecharts-lint-chart-2": noObject,
		testcharts + "alpine": noText, rules + "v3-fail": noText,
		rules + "badcrdfile":                            "a definition has no name; Leat refuses it, as an API server would",
		action + "chart-with-compressed-dependencies":   random,
		action + "chart-with-uncompressed-dependencies": random,
	}
}()

// TestEqualOnHelmsOwnCharts compares the objects of the charts that Helm's module brings for its
// own tests with the objects that helm template makes. None of them is in this repository.
func TestEqualOnHelmsOwnCharts(t *testing.T) {
	t.Parallel()
	charts := chartsBelow(rendertest.ReadFolder(t, rendertest.Module(t, "helm.sh/helm/v4")))
	if len(charts) < 80 {
		t.Fatalf("got %d charts, want at least 80: Helm keeps them elsewhere", len(charts))
	}
	var lock sync.Mutex
	results := map[string]string{} // by the chart: equal, refused, or the reason
	t.Run("charts", func(t *testing.T) {
		for _, name := range slices.Sorted(maps.Keys(charts)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				result, problem := compareOwn(t, charts[name])
				reason, isKnown := ownDifferences[name]
				switch {
				case problem == "" && isKnown:
					t.Errorf("is equal; it is listed as different: %s", reason)
				case problem != "" && !isKnown:
					t.Error(problem)
				case isKnown:
					result = reason
				}
				lock.Lock()
				defer lock.Unlock()
				results[name] = result
			})
		}
	})
	equal, refused, rows := 0, 0, []string{}
	for name, result := range results {
		switch result {
		case "equal":
			equal++
		case "refused":
			refused++
		default:
			rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", name, result))
		}
	}
	slices.Sort(rows)
	text := fmt.Appendf(nil, "Of %d charts, %d make equal objects, %d are refused by both, and %d differ", len(charts), equal, refused, len(rows))
	if len(rows) == 0 {
		text = append(text, ".\n"...)
	} else {
		text = append(text, ":\n\n| chart | why Leat's result is another one |\n|---|---|\n"+strings.Join(rows, "")...)
	}
	if !t.Failed() {
		golden.AssertSection(t, "../../../docs/guides/renderers/charts.md", "own charts", text)
	}
}

// chartsBelow returns the charts among the files of Helm's module, by their folder, without
// dependencies of other charts. Their files lie in the folder chart.
func chartsBelow(files map[string][]byte) map[string]map[string][]byte {
	folders := map[string]bool{}
	for name := range files {
		if path.Base(name) == "Chart.yaml" {
			folders[path.Dir(name)] = true
		}
	}
	charts := map[string]map[string][]byte{}
	for name, content := range files {
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			if !folders[folder] || isBelowChart(folder, folders) {
				continue
			}
			if charts[folder] == nil {
				charts[folder] = map[string][]byte{}
			}
			charts[folder]["chart"+strings.TrimPrefix(name, folder)] = content
			break
		}
	}
	return charts
}

// isBelowChart reports whether a folder above the given one is a chart.
func isBelowChart(folder string, charts map[string]bool) bool {
	for above := path.Dir(folder); above != "."; above = path.Dir(above) {
		if charts[above] {
			return true
		}
	}
	return false
}

// compareOwn renders a chart with Leat and with Helm. The result is "equal" or "refused", where
// both refuse it; otherwise there is a problem.
func compareOwn(t *testing.T, content map[string][]byte) (result, problem string) {
	t.Helper()
	tree := write(t, content)
	got, gotErr := example{}.leat(t, tree.files)
	want, wantErr := example{}.helm(t, tree.dir)
	if (gotErr == nil) != (wantErr == nil) {
		return "", fmt.Sprintf("got %v; Helm says: %v", gotErr, wantErr)
	}
	if gotErr != nil {
		return "refused", ""
	}
	if diff := gocmp.Diff(normal(t, want), normal(t, got)); diff != "" {
		return "", "Helm's objects are -, Leat's are +:\n" + diff
	}
	return "equal", ""
}
