// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chartdep_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
)

// none is the folder charts of a chart that has none.
func none(string) bool { return false }

// locked returns a lock file with Helm's digest over both lists.
func locked(t *testing.T, declared, pinned []*chartdep.Dependency) []byte {
	t.Helper()
	data, err := json.Marshal([2][]*chartdep.Dependency{declared, pinned})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	lock, err := json.Marshal(map[string]any{
		"dependencies": pinned, "digest": "sha256:" + hex.EncodeToString(sum[:]), "generated": "2026-01-02T03:04:05Z",
	})
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// byHelm are files as Helm 4.2.4 wrote the lock: with an alias of a repository that had a URL with a
// slash at the end, import-values and a number for a version.
const (
	chartByHelm = `apiVersion: v2
name: shop
version: 0.1.0
dependencies:
- {name: web, version: ^1.0.0, repository: "@stable", condition: web.enabled, tags: [front], import-values: [data, {child: a, parent: b}]}
- {name: lib, version: 1.0, repository: "file://../lib", alias: tools}
`
)

func read(t *testing.T, texts map[string]string) chartdep.Chart {
	t.Helper()
	files := chartdep.Texts{}
	for name, text := range texts {
		files[name] = []byte(text)
	}
	c, err := chartdep.Read(files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLockIsObeyed pins what the lock file pins: also two versions of one chart, and the URL that an
// alias stands for.
func TestLockIsObeyed(t *testing.T) {
	t.Parallel()
	const url = "https://charts.example.com/stable"
	written := []*chartdep.Dependency{
		{Name: "web", Version: "^1.0.0", Repository: url + "/", Condition: "web.enabled", Tags: []string{"front"}, ImportValues: []any{"data", map[string]any{"child": "a", "parent": "b"}}},
		{Name: "lib", Version: "1", Repository: "file://../lib", Alias: "tools"},
	}
	pinned := []*chartdep.Dependency{
		{Name: "web", Version: "1.4.2", Repository: url + "/"}, {Name: "lib", Version: "1.0.3", Repository: "file://../lib"},
	}
	c := read(t, map[string]string{chartdep.ChartFile: chartByHelm, chartdep.LockFile: string(locked(t, written, pinned))})
	got, err := c.Missing("charts/shop", none)
	want := []chartdep.Wanted{
		{Name: "web", Range: "^1.0.0", Version: "1.4.2", Repository: "@stable"},
		{Name: "lib", Range: "1", Version: "1.0.3", Repository: "file://../lib", Local: "../lib"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("got %v (-want +got):\n%s", err, diff)
	}
	if got, err := c.Missing("", func(name string) bool { return name == "web" }); err != nil || len(got) != 1 || got[0].Name != "lib" {
		t.Errorf("got %v (%v), want what is not packed", got, err)
	}

	twice := []*chartdep.Dependency{
		{Name: "web", Version: "1.x", Repository: url, Alias: "old"},
		{Name: "web", Version: "2.x", Repository: url, Alias: "new"},
		{Name: "web", Version: "1.x", Repository: url, Alias: "older"},
	}
	versions := []*chartdep.Dependency{
		{Name: "web", Version: "1.4.2", Repository: url}, {Name: "web", Version: "2.0.0", Repository: url}, {Name: "web", Version: "1.4.2", Repository: url},
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v2", "name": "shop", "version": "1.0.0", "dependencies": twice})
	if err != nil {
		t.Fatal(err)
	}
	c = read(t, map[string]string{chartdep.ChartFile: string(text), chartdep.LockFile: string(locked(t, twice, versions))})
	if got, err := c.Missing("", none); err != nil || len(got) != 2 || got[0].Version != "1.4.2" || got[1].Version != "2.0.0" {
		t.Errorf("got %+v (%v), want each version once", got, err)
	}
}

// TestChartsOfHelm2 have their dependencies in requirements.yaml, and a digest over that alone.
func TestChartsOfHelm2(t *testing.T) {
	t.Parallel()
	declared := []*chartdep.Dependency{{Name: "web", Version: "~1", Repository: "https://charts.example.com"}}
	data, err := json.Marshal(map[string]any{"dependencies": declared})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	c := read(t, map[string]string{
		chartdep.ChartFile: "{apiVersion: v1, name: old, version: 1.0.0}", chartdep.RequirementsFile: string(data),
		chartdep.RequirementsLock: fmt.Sprintf(`{dependencies: [{name: web, version: 1.2.0, repository: "https://charts.example.com"}], digest: "sha256:%x"}`, sum),
	})
	got, err := c.Missing("old", none)
	if err != nil || len(got) != 1 || got[0].Version != "1.2.0" || c.DeclaredIn("old") != "old/requirements.yaml" {
		t.Errorf("got %+v (%v) of %s, want web 1.2.0", got, err, c.DeclaredIn("old"))
	}
}

// TestWhatCannotBePacked is refused, with the file at fault and the command that helps.
func TestWhatCannotBePacked(t *testing.T) {
	t.Parallel()
	const url = "https://charts.example.com"
	one := func(d chartdep.Dependency) []*chartdep.Dependency { return []*chartdep.Dependency{&d} }
	web := one(chartdep.Dependency{Name: "web", Version: "^1", Repository: url})
	many := make([]*chartdep.Dependency, chartdep.MaxDeclared+1)
	for i := range many {
		many[i] = &chartdep.Dependency{Name: fmt.Sprint("c", i), Version: "1", Repository: url}
	}
	for name, test := range map[string]struct {
		declared, hashed, pinned []*chartdep.Dependency
		file, word               string
	}{
		"no lock":         {declared: web, file: "Chart.yaml", word: "helm dependency update"},
		"other digest":    {declared: web, hashed: one(chartdep.Dependency{Name: "web", Version: "^2", Repository: url}), pinned: one(chartdep.Dependency{Name: "web", Version: "1.0.0", Repository: url}), file: "Chart.lock", word: "helm dependency update"},
		"other name":      {declared: web, hashed: web, pinned: one(chartdep.Dependency{Name: "api", Version: "1.0.0", Repository: url}), file: "Chart.lock", word: "does not belong"},
		"fewer":           {declared: web, hashed: web, pinned: []*chartdep.Dependency{}, file: "Chart.lock", word: "does not belong"},
		"outside":         {declared: web, hashed: web, pinned: one(chartdep.Dependency{Name: "web", Version: "2.0.0", Repository: url}), file: "Chart.lock", word: "does not accept"},
		"a range":         {declared: web, hashed: web, pinned: one(chartdep.Dependency{Name: "web", Version: "^1", Repository: url}), file: "Chart.lock", word: "exact"},
		"a path":          {declared: web, hashed: web, pinned: one(chartdep.Dependency{Name: "web", Version: "1.0.0/../..", Repository: url}), file: "Chart.lock", word: "exact"},
		"a long version":  {declared: web, hashed: web, pinned: one(chartdep.Dependency{Name: "web", Version: "1.0.0-" + strings.Repeat("a", 200), Repository: url}), file: "Chart.lock", word: "exact"},
		"no repository":   {declared: one(chartdep.Dependency{Name: "web", Version: "^1"}), file: "Chart.yaml", word: "charts/web"},
		"a name upwards":  {declared: one(chartdep.Dependency{Name: "../web", Version: "^1", Repository: url}), file: "Chart.yaml", word: "name of dependency 1"},
		"a hidden name":   {declared: one(chartdep.Dependency{Name: "_web", Version: "^1", Repository: url}), file: "Chart.yaml", word: "name of dependency 1"},
		"a long URL":      {declared: one(chartdep.Dependency{Name: "web", Version: "^1", Repository: url + strings.Repeat("/x", 2000)}), file: "Chart.yaml", word: "2048 bytes"},
		"too many":        {declared: many, file: "Chart.yaml", word: "65 dependencies"},
		"a range of text": {declared: one(chartdep.Dependency{Name: "web", Version: "latest", Repository: url}), hashed: one(chartdep.Dependency{Name: "web", Version: "latest", Repository: url}), pinned: one(chartdep.Dependency{Name: "web", Version: "1.0.0", Repository: url}), file: "Chart.lock", word: "does not accept"},
	} {
		text, err := json.Marshal(map[string]any{"apiVersion": "v2", "name": "shop", "version": "1.0.0", "dependencies": test.declared})
		if err != nil {
			t.Fatal(err)
		}
		texts := map[string]string{chartdep.ChartFile: string(text)}
		if test.pinned != nil {
			texts[chartdep.LockFile] = string(locked(t, test.hashed, test.pinned))
		}
		_, err = read(t, texts).Missing("deploy", none)
		bad, ok := errors.AsType[*chartdep.UnsupportedError](err)
		if !ok || bad.File != "deploy/"+test.file || !strings.Contains(bad.Said, test.word) {
			t.Errorf("%s: got %v, want %s refused with %q", name, err, test.file, test.word)
		}
	}
}

// TestSecChartFilesOfCommitters reads files that were made to cost much, or to lead astray.
func TestSecChartFilesOfCommitters(t *testing.T) {
	t.Parallel()
	bomb := "a: &a [x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 8))
	}
	text := strings.Repeat("x", 100_000)
	for name, file := range map[string]string{
		"billion laughs":     "name: web\n" + bomb,
		"a repeated text":    "name: web\nt: &t " + text + "\nl: [" + strings.Repeat("*t,", 1000) + "]\n",
		"itself":             "name: web\na: &a [*a]\n",
		"deep":               "name: web\na: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"long":               "name: web\n#" + strings.Repeat("x", chartdep.MaxBytes),
		"no name":            "version: 1.0.0\n",
		"a list":             "[1, 2]",
		"an empty element":   "name: web\ndependencies: [null]\n",
		"another dependency": "name: web\ndependencies: {web: 1}\n",
	} {
		if _, err := chartdep.Read(chartdep.Texts{chartdep.ChartFile: []byte(file)}); !errors.Is(err, chartdep.ErrUnreadable) {
			t.Errorf("%s: got %v, want ErrUnreadable", name, err)
		}
	}
	var list strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&list, "- {name: c%d}\n", i)
	}
	c := read(t, map[string]string{chartdep.ChartFile: "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n" + list.String()})
	if _, err := c.Missing("", none); err == nil || !strings.Contains(err.Error(), "10000 dependencies") {
		t.Errorf("got %v, want 10,000 dependencies refused", err)
	}
	for local, want := range map[string]string{
		"../lib": "charts/lib", "../../lib/": "lib", "./sub": "charts/web/sub", "../..": "", ".": "charts/web",
		"../../..": "-", "../../../etc": "-", "/etc": "-", "": "-", `..\..\..\etc`: "-", "../lib/../../../x": "-", "a\x00b": "-",
	} {
		got, ok := chartdep.Within("charts/web", local)
		if !ok {
			got = "-"
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", local, got, want)
		}
	}
}

// TestFits accepts the chart that is wanted, and no other.
func TestFits(t *testing.T) {
	t.Parallel()
	w := chartdep.Wanted{Name: "web", Range: "^1", Version: "1.2.0+build.1"}
	for text, fits := range map[string]bool{
		"{name: web, version: 1.2.0+build.1}": true, "{name: web, version: v1.2.0+build.1}": true, "{name: web, version: 1.2.0}": false,
		"{name: api, version: 1.2.0+build.1}": false, "{name: web, version: ../x}": false, "{name: web}": false,
	} {
		if err := read(t, map[string]string{chartdep.ChartFile: text}).Fits(w); (err == nil) != fits {
			t.Errorf("%s: got %v, want fits %v", text, err, fits)
		}
	}
	unlocked := chartdep.Wanted{Name: "web", Range: "^1"}
	if err := read(t, map[string]string{chartdep.ChartFile: "{name: web, version: 2.0.0}"}).Fits(unlocked); err == nil {
		t.Error("got a version outside of the range accepted")
	}
	for file, isPacked := range map[string]bool{
		"web-1.0.0.tgz": true, "web-1.0.0-rc.1.tgz": true, "web-api-1.0.0.tgz": false, "web.tgz": false, "web-1.0.0.tar": false,
	} {
		if chartdep.IsPackedAs(file, "web") != isPacked {
			t.Errorf("%s: got %v, want %v", file, !isPacked, isPacked)
		}
	}
}
