// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chartindex_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/leatdev/leat/services/gitcache/internal/chartindex"
)

// source returns text as a source.
func source(text string) chartindex.Source {
	return chartindex.Source{ReaderAt: strings.NewReader(text), Size: int64(len(text))}
}

func parse(text string, p chartindex.Params) (*chartindex.Index, error) {
	return chartindex.Parse(context.Background(), source(text), p)
}

func mustParse(t *testing.T, text string, patterns ...string) *chartindex.Index {
	t.Helper()
	selection, err := chartindex.NewSelection(patterns)
	if err != nil {
		t.Fatal(err)
	}
	x, err := parse(text, chartindex.Params{Charts: selection})
	if err != nil {
		t.Fatalf("got %v of\n%s", err, text)
	}
	return x
}

// listing returns what an index lists, one line a version.
func listing(x *chartindex.Index) []string {
	var all []string
	for _, chart := range x.Charts {
		for _, v := range chart.Versions {
			all = append(all, strings.Join([]string{chart.Name, v.Version, v.URL, v.Digest, v.Created}, " "))
		}
	}
	slices.Sort(all)
	return all
}

// plain decodes an index of YAML as a whole, and returns the same.
func plain(text string) ([]string, error) {
	var index struct {
		APIVersion string `yaml:"apiVersion"`
		Entries    map[string][]*struct {
			Version string   `yaml:"version"`
			Digest  string   `yaml:"digest"`
			URLs    []string `yaml:"urls"`
			Created string   `yaml:"created"`
		} `yaml:"entries"`
	}
	if err := yaml.Unmarshal([]byte(text), &index); err != nil {
		return nil, err
	}
	var all []string
	for name, list := range index.Entries {
		for _, e := range list {
			if e != nil && len(e.URLs) > 0 {
				all = append(all, strings.Join([]string{name, e.Version, e.URLs[0], e.Digest, e.Created}, " "))
			}
		}
	}
	slices.Sort(all)
	return all, nil
}

var digests = []string{strings.Repeat("a", 64), strings.Repeat("b", 64), strings.Repeat("0123456789abcdef", 4)}

const begin = "apiVersion: v1\nentries:\n"

// odd are forms that YAML allows, each with the same meaning for every reader.
var odd = map[string]string{
	"as helm writes it": begin + `  web:
  - apiVersion: v2
    appVersion: "1.16.0"
    created: "2026-11-22T10:00:00.123456789Z"
    description: A Helm chart for Kubernetes
    digest: ` + digests[0] + `
    name: web
    type: application
    urls:
    - https://charts.example.com/web-1.1.0.tgz
    - https://mirror.example.com/web-1.1.0.tgz
    version: 1.1.0
  - created: "2026-11-21T10:00:00Z"
    digest: ` + digests[1] + `
    urls:
    - web-1.0.0.tgz
    version: 1.0.0
generated: "2026-11-22T10:00:00Z"
`,
	"comments":               "# c\n" + begin + "# at the margin\n  web: # the chart\n  # above\n  - version: 1.0.0 # it\n# inside\n    urls: [web.tgz]\n  # last\n",
	"document marks":         "---\n" + begin + "  web:\n  - version: 1.0.0\n    urls: [a]\n---\nentries: {}\n",
	"document end":           begin + "  web:\n  - version: 1.0.0\n    urls: [a]\n...\nrubbish: [\n",
	"entries in the middle":  "entries:\n  web:\n  - version: 1.0.0\n    urls: [a]\n\napiVersion: v1\ngenerated: x\n",
	"items further right":    begin + "    web:\n        - version: 1.0.0\n          urls:\n              - a\n        -   version: 2.0.0\n            urls: [b]\n    api:\n        - urls: [c]\n          version: 3.0.0\n",
	"item alone on its line": begin + "  web:\n  -\n    version: 1.0.0\n    urls:\n      - a\n",
	"quoted keys":            "\"apiVersion\": v1\n'entries':\n  \"web\":\n  - \"version\": \"1.0.0\"\n    'urls': ['a']\n  'a.b-c_d':\n  - {version: 2.0.0, urls: [b]}\n",
	"keys that look odd":     begin + "  2048:\n  - version: 1.0.0\n    urls: [a]\n  true:\n  - version: 1.0.0\n    urls: [a]\n  1.5:\n  - version: 1.0.0\n    urls: [a]\n",
	"anchors in an entry":    begin + "  web:\n  - &a\n    version: &v 1.0.0\n    appVersion: *v\n    urls: [a]\n",
	"anchors across entries": begin + "  web:\n  - &base\n    version: 1.0.0\n    urls: &u [a]\n  api:\n  - version: 2.0.0\n    urls: *u\n  - <<: *base\n    version: 3.0.0\n",
	"an anchored list":       begin + "  web: &list\n  - version: 1.0.0\n    urls: [a]\n  api: *list\n",
	"a tagged list":          begin + "  web: !!seq\n  - version: 1.0.0\n    urls: [a]\n",
	"merged entries":         "base: &b\n  web: [{version: 1.0.0, urls: [a]}]\n" + begin + "  <<: *b\n  api:\n  - {version: 1.0.0, urls: [a]}\n",
	"anchors at the top":     "x: &u [a]\n" + begin + "  web:\n  - version: 1.0.0\n    urls: *u\n",
	"block scalars":          begin + "  web:\n  - description: |\n      api:\n      - version: 9.9.9\n\n      entries:\n    version: 1.0.0\n    urls: [a]\n  - notes: |+\n      x\n\n\n    annotations:\n      changes: >-\n        - kind: added\n          description: |\n    version: 2.0.0\n    urls: [b]\n",
	"long texts":             begin + "  web:\n  - description: a plain text\n      goes on\n      - and on\n    version: 1.0.0\n    urls: [a]\n  - description: \"quoted\n      - version: 3.0.0\n\n      text\"\n    version: 2.0.0\n    urls: [b]\n",
	"text at the margin":     begin + "  web:\n  - description: \"quoted\n  api:\n  - version: 3.0.0\nentries:\n      text\"\n    version: 2.0.0\n    urls: [b]\n",
	"flow at the margin":     begin + "  web:\n  - urls: [\n  api,\nentries\n]\n    version: 2.0.0\n",
	"text before":            "generated: 'x\nentries:\n  web:\n  - version: 1.0.0\n'\n" + begin + "  web:\n  - version: 2.0.0\n    urls: [b]\n",
	"flow before":            "x: {\nentries:\n  web:\n  [{version: 1.0.0, urls: [a]}]\n}\n\"apiVersion\" : v1\nentries : {web: [{version: 2.0.0, urls: [b]}]}\n",
	"flow style":             "{apiVersion: v1, entries: {web: [{version: 1.0.0, urls: [a]}]}}\n",
	"flow style below":       begin + "  web: [{version: 1.0.0, urls: [a]},\n    {version: 2.0.0, urls: [b]}]\n  api:\n  - version: 1.0.0\n    urls: [c]\n",
	"explicit keys":          "? apiVersion\n: v1\n? entries\n: web:\n  - version: 1.0.0\n    urls: [a]\n",
	"explicit chart":         begin + "  ? web\n  : - version: 1.0.0\n      urls: [a]\n  api:\n  - version: 1.0.0\n    urls: [a]\n",
	"directive":              "%YAML 1.1\n---\n" + begin + "  web:\n  - version: 1.0.0\n    urls: [a]\n",
	"no entries":             "apiVersion: v1\nentries: {}\n",
	"empty entries":          "apiVersion: v1\nentries:\n",
	"null entries":           "apiVersion: v1\nentries: ~\ngenerated: x\n",
	"charts without a list":  begin + "  web:\n  api: []\n  db: ~\n  x:\n  - version: 1.0.0\n    urls: [a]\n",
	"empty items":            begin + "  web:\n  -\n  - ~\n  - version: 1.0.0\n    urls: [a]\n",
	"other breaks":           begin + "  web:\n  - version: 1.0.0\r    urls: [a]\u0085  api:\u2028  - version: 2.0.0\n    urls: [b]\n",
	"blank lines":            begin + "\n\n  web:\n\n  - version: 1.0.0\n\n    urls: [a]\n   \n\t\n  - version: 2.0.0\n    urls: [b]\n\n",
}

// TestCuttingKeepsTheMeaning compares the result of reading chart by chart with a plain decoder's.
func TestCuttingKeepsTheMeaning(t *testing.T) {
	t.Parallel()
	forms := maps.Clone(odd)
	for name, text := range odd {
		forms[name+", CRLF"] = strings.ReplaceAll(text, "\n", "\r\n")
		forms[name+", byte order mark"] = "\ufeff" + text
		forms[name+", no last break"] = strings.TrimSuffix(text, "\n")
	}
	for name, text := range forms {
		want, err := plain(text)
		if err != nil {
			if _, err := parse(text, chartindex.Params{}); err == nil {
				t.Errorf("%s: got no error, want one as the plain decoder's", name)
			}
			continue
		}
		if len(want) == 0 && !strings.Contains(name, "entries") {
			t.Errorf("%s: the plain decoder finds nothing", name)
		}
		x, err := parse(text, chartindex.Params{})
		if err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
			continue
		}
		if diff := cmp.Diff(want, listing(x)); diff != "" {
			t.Errorf("%s: got another listing than the plain decoder (-want +got):\n%s", name, diff)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 20_000)
	for name, test := range map[string]struct{ text, want string }{
		"nothing":           {"", "apiVersion"},
		"a web page":        {"<!doctype html>\n<html><body>Please log in: <a href=\"/\">here</a></body></html>\n", ""},
		"a list":            {"- a\n- b\n", ""},
		"no API version":    {"entries:\n  web:\n  - version: 1.0.0\n    urls: [a]\n", "apiVersion"},
		"a chart twice":     {begin + "  web:\n  - version: 1.0.0\n    urls: [a]\n  web:\n  - version: 1.0.0\n    urls: [a]\n", `"web" twice`},
		"quoted twice":      {begin + "  web:\n  - version: 1.0.0\n    urls: [a]\n  \"web\":\n  - version: 1.0.0\n    urls: [a]\n", `"web" twice`},
		"entries twice":     {begin + "  web: []\nentries:\n  api: []\n", "already defined"},
		"tabs":              {"apiVersion: v1\nentries:\n\tweb:\n\t- version: 1.0.0\n", ""},
		"tabs before items": {begin + "  web:\n\t- version: 1.0.0\n", ""},
		"entries as a list": {begin + "  - web\n", ""},
		"an open quote":     {begin + "  web:\n  - version: \"1.0.0\n    urls: [a]\n", ""},
		"an odd indent":     {begin + "    web:\n    - version: 1.0.0\n      urls: [a]\n  api:\n  - version: 1.0.0\n", ""},
		"an unknown anchor": {begin + "  web:\n  - *nobody\n", "unknown anchor"},
		"deep":              {begin + "  web: " + deep + "\n", ""},
		"JSON, cut":         {`{"apiVersion":"v1","entries":{"web":[{"version":"1.0.0"`, ""},
		"JSON, twice":       {`{"apiVersion":"v1","entries":{"web":[],"web":[]}}`, `"web" twice`},
		"JSON, a list":      {`{"apiVersion":"v1","entries":[]}`, "form of an index"},
		"JSON, no version":  {`{"entries":{}}`, "apiVersion"},
		"JSON, a number":    {`{"apiVersion":1,"entries":{}}`, "apiVersion"},
		"JSON, deep":        {`{"apiVersion":"v1","entries":{},"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, "nested"},
		"JSON, long":        {`{"apiVersion":"v1","entries":{"web":[{"version":"` + strings.Repeat("1", 300<<10) + `"}]}}`, "bytes"},
		"binary":            {"\x00\x01\x02\xff\xfe", ""},
	} {
		x, err := parse(test.text, chartindex.Params{})
		if _, isFormat := errors.AsType[*chartindex.FormatError](err); !isFormat || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v (%v), want a FormatError with %q", name, err, x, test.want)
		}
	}
	if _, err := chartindex.Parse(t.Context(), chartindex.Source{ReaderAt: strings.NewReader(""), Size: chartindex.MaxBytes + 1}, chartindex.Params{}); err == nil {
		t.Error("got no error for an index of more than the bound")
	}
}

// TestUnusableEntriesAreSkipped shows that an entry that cannot be used does not cost the others.
func TestUnusableEntriesAreSkipped(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300<<10)
	const good = "{version: 1.0.0, urls: [a]}"
	for name, entry := range map[string]string{
		"no version":         "{urls: [a]}",
		"no semver":          "{version: latest, urls: [a]}",
		"a path":             "{version: 1.0.0/../x, urls: [a]}",
		"version is a map":   "{version: {a: b}, urls: [a]}",
		"no URL":             "{version: 2.0.0}",
		"URLs are a text":    "{version: 2.0.0, urls: a}",
		"file":               "{version: 2.0.0, urls: ['file:///etc/passwd']}",
		"other scheme":       "{version: 2.0.0, urls: ['ftp://a/b']}",
		"password":           "{version: 2.0.0, urls: ['https://u:p@a/b']}",
		"no host":            "{version: 2.0.0, urls: ['https:///b']}",
		"host alone":         "{version: 2.0.0, urls: ['//a/b']}",
		"control characters": "{version: 2.0.0, urls: [\"a\\nb\"]}",
		"registry":           "{version: 2.0.0, urls: ['oci://registry.example.com/web:2.0.0']}",
		"long URL":           "{version: 2.0.0, urls: ['" + long[:3000] + "']}",
		"digest":             "{version: 2.0.0, urls: [a], digest: abc}",
		"time":               "{version: 2.0.0, urls: [a], created: \"1\\n2\"}",
		"long version":       "{version: 1.0.0-" + long[:200] + ", urls: [a]}",
		"long entry":         "{version: 2.0.0, urls: [a], description: " + long + "}",
		"key twice":          "{version: 2.0.0, version: 2.0.0, urls: [a]}",
		"listed twice":       good,
		"a text":             "text",
	} {
		x := mustParse(t, begin+"  web:\n  - "+good+"\n  - "+entry+"\n  - {version: 3.0.0, urls: [c]}\n")
		want := []string{"web 1.0.0 a  ", "web 3.0.0 c  "}
		if got := listing(x); !slices.Equal(got, want) || x.Skipped != 1 || len(x.Reasons) != 1 || len(x.Reasons[0]) > 200 {
			t.Errorf("%s: got %q, %d skipped because of %q, want the two others and one reason", name, got, x.Skipped, x.Reasons)
		}
	}
	x := mustParse(t, begin+"  ../up:\n  - "+good+"\n  .x:\n  - "+good+"\n  web: 5\n  ok:\n  - "+good+"\n")
	if got := listing(x); !slices.Equal(got, []string{"ok 1.0.0 a  "}) || x.Skipped != 3 {
		t.Errorf("got %q and %d skipped (%q), want only the chart with a good name", got, x.Skipped, x.Reasons)
	}
	x = mustParse(t, `{"apiVersion":"v1","entries":{"web":[null,{"version":1},{"version":"1.0.0","urls":["a"]}],"api":{"a":[1]}},"more":[{"x":null}]}`)
	if got := listing(x); !slices.Equal(got, []string{"web 1.0.0 a  "}) || x.Skipped != 3 {
		t.Errorf("JSON: got %q and %d skipped (%q), want one version and three", got, x.Skipped, x.Reasons)
	}
	x = mustParse(t, begin+"  web:\n  - {version: 1.0.0, urls: ['oci://r/x', 'https://a/b'], digest: 'SHA256:"+strings.ToUpper(digests[0])+"'}\n")
	if got := listing(x); !slices.Equal(got, []string{"web 1.0.0 https://a/b " + digests[0] + " "}) {
		t.Errorf("got %q, want the first URL that can be used, and the digest in lower case", got)
	}
}

func TestSelection(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"", "[", strings.Repeat("x", 300)} {
		if _, err := chartindex.NewSelection([]string{pattern}); err == nil {
			t.Errorf("got no error for the pattern %.20q", pattern)
		}
	}
	if _, err := chartindex.NewSelection(make([]string, chartindex.MaxPatterns+1)); err == nil {
		t.Error("got no error for too many patterns")
	}
	var text strings.Builder
	text.WriteString(begin)
	for _, name := range []string{"team-a", "team-b", "other", "others", "web"} {
		fmt.Fprintf(&text, "  %s:\n  - version: 1.0.0\n    urls: [a]\n", name)
	}
	x := mustParse(t, text.String(), "team-*", "we?", "other")
	if got := names(x); !slices.Equal(got, []string{"other", "team-a", "team-b", "web"}) {
		t.Errorf("got %q, want those that match", got)
	}
}

func names(x *chartindex.Index) []string {
	var all []string
	for _, chart := range x.Charts {
		all = append(all, chart.Name)
	}
	return all
}

// TestUnchangedChartsAreNotDecoded changes one chart of three. The others are taken from last time,
// even if they differ from their text.
func TestUnchangedChartsAreNotDecoded(t *testing.T) {
	t.Parallel()
	chart := func(name, version string) string {
		return "  " + name + ":\n  - version: " + version + "\n    urls: [" + name + ".tgz]\n"
	}
	before := mustParse(t, begin+chart("a", "1.0.0")+chart("b", "1.0.0")+chart("c", "1.0.0"))
	for i := range before.Charts {
		before.Charts[i].Versions[0].URL = "kept"
	}
	after, err := parse(begin+chart("b", "2.0.0")+chart("a", "1.0.0")+"  d:\n  - bad\n"+chart("c", "1.0.0"), chartindex.Params{Before: before})
	want := []string{"a 1.0.0 kept  ", "b 2.0.0 b.tgz  ", "c 1.0.0 kept  "}
	if err != nil || !slices.Equal(listing(after), want) || after.Skipped != 1 {
		t.Errorf("got %q (%v), want %q", listing(after), err, want)
	}
	again, err := parse(begin+chart("a", "1.0.0")+"  d:\n  - bad\n", chartindex.Params{Before: after})
	if err != nil || again.Skipped != 1 || len(again.Reasons) != 1 {
		t.Errorf("got %d skipped, %q (%v), want the one of last time", again.Skipped, again.Reasons, err)
	}
}

// TestBounds ends where there is too much of something, in JSON and in YAML.
func TestBounds(t *testing.T) {
	t.Parallel()
	selection, err := chartindex.NewSelection([]string{"c*"})
	if err != nil {
		t.Fatal(err)
	}
	limits := chartindex.Limits{Versions: 50, Text: 4000, Entries: 80, Charts: 20}
	for name, test := range map[string]struct {
		charts, versions, skipped, others int
		url, want                         string
	}{
		"enough":           {2, 25, 0, 0, "a", ""},
		"too many":         {3, 25, 0, 0, "a", "50 versions"},
		"too many in one":  {1, 51, 0, 0, "a", "50 versions"},
		"skipped":          {2, 25, 15, 0, "a", ""},
		"too many skipped": {2, 0, 41, 0, "a", "80 entries"},
		"not selected":     {1, 1, 0, 19, "a", ""},
		"too many charts":  {1, 1, 0, 20, "a", "20 charts"},
		"too much text":    {2, 20, 0, 0, strings.Repeat("x", 100), "4000 bytes"},
	} {
		for _, form := range []string{"YAML", "JSON"} {
			var text strings.Builder
			text.WriteString("{\"apiVersion\":\"v1\",\"entries\":{")
			if form == "YAML" {
				text.Reset()
				text.WriteString(begin)
			}
			for i := range test.charts + test.others {
				chart := fmt.Sprintf("%c%d", "co"[min(1, i/test.charts)], i)
				entries := strings.Repeat("{},", test.skipped)
				for n := range test.versions {
					entries += fmt.Sprintf("{\"version\":\"1.0.%d\",\"urls\":[%q]},", n, test.url)
				}
				entries = strings.TrimSuffix(entries, ",")
				if form == "JSON" {
					fmt.Fprintf(&text, "%s%q:[%s]", strings.Repeat(",", min(1, i)), chart, entries)
				} else {
					fmt.Fprintf(&text, "  %s:\n  - %s\n", chart, strings.ReplaceAll(entries, "},", "}\n  - "))
				}
			}
			if form == "JSON" {
				text.WriteString("}}")
			}
			x, err := parse(text.String(), chartindex.Params{Charts: selection, Limits: limits})
			_, isMany := errors.AsType[*chartindex.TooManyError](err)
			_, isFormat := errors.AsType[*chartindex.FormatError](err)
			switch {
			case test.want == "" && (err != nil || x.Versions() != test.charts*test.versions):
				t.Errorf("%s, %s: got %v, want all versions", name, form, err)
			case test.want != "" && (!isMany && !isFormat || !strings.Contains(err.Error(), test.want) || isMany != strings.Contains(err.Error(), "charts to mirror; name")):
				t.Errorf("%s, %s: got %v, want one of %s", name, form, err, test.want)
			}
		}
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	why := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	for _, text := range []string{odd["as helm writes it"], `{"apiVersion":"v1","entries":{"a":[]}}`} {
		if _, err := chartindex.Parse(ctx, source(text), chartindex.Params{}); !errors.Is(err, why) {
			t.Errorf("got %v, want the cause", err)
		}
	}
}

// TestIDs pins what refs without a digest are named by: replicas of two versions have to agree.
func TestIDs(t *testing.T) {
	t.Parallel()
	v := chartindex.Version{Version: "1.0.0", URL: "a", Created: "2026-01-01T00:00:00Z"}
	if got, want := v.ID("https://x/a"), "e0204f541f860b50bfbffb2e4ff0b935dbe4fe020a1204239dff3efbb2b68e57"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	other := v
	other.Created = "2026-01-02T00:00:00Z"
	if v.ID("https://x/a") == other.ID("https://x/a") || v.ID("https://x/a") == v.ID("https://y/a") {
		t.Error("got one id for two archives")
	}
	v.Digest = digests[0]
	if got := v.ID("https://x/a"); got != digests[0] {
		t.Errorf("got %s, want the digest", got)
	}
}
