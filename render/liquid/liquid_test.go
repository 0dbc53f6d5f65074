// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package liquid_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	original "github.com/osteele/liquid"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/liquid"
	"github.com/leatdev/leat/render/rendertest"
)

// input returns the input of a step with a configuration and facts.
func input(files map[string]string, folder string) render.StepInput {
	return render.StepInput{
		Input: render.Input{
			Files:     rendertest.Files(files),
			Variables: &render.Variables{Values: map[string]string{"TAG": "1.2", "REPLICAS": "3"}, Secrets: map[string]string{"PASSWORD": "hunter2"}},
			Facts: render.Facts{
				Cluster: render.ClusterFacts{
					Name: "eu-1", Labels: map[string]string{"region": "eu", "stage": "prod"}, Annotations: map[string]string{"vpc": "vpc-1"},
					KubernetesVersion: "v1.36.1", APIVersions: []string{"apps/v1", "v1"},
				},
				Service: render.ServiceFacts{Name: "shop", Namespace: "web"},
			},
			Installed: true,
		},
		Step:   renderstep.Step{Renderer: renderstep.Liquid},
		Folder: folder,
	}
}

// text renders one template.
func text(t testing.TB, template string) (string, render.StepOutput, error) {
	t.Helper()
	output, err := liquid.Renderer{}.RenderStep(t.Context(), input(map[string]string{"a.txt.liquid": template}, ""))
	return string(output.Files["a.txt"]), output, err
}

// language are features of Liquid. None of them needs variables of Leat.
var language = map[string]string{
	"text":                     "a {{ 'b' }} c",
	"assign":                   "{% assign x = 'a' %}{{ x }}",
	"capture":                  "{% capture x %}a{{ 1 }}{% endcapture %}{{ x }}{{ x | size }}",
	"if, elsif, else":          "{% if false %}a{% elsif 1 == 1 %}b{% else %}c{% endif %}",
	"unless":                   "{% unless false %}a{% endunless %}",
	"case":                     "{% assign x = 2 %}{% case x %}{% when 1 %}a{% when 2, 3 %}b{% else %}c{% endcase %}",
	"for":                      "{% for i in (1..4) %}{{ i }}{% unless forloop.last %},{% endunless %}{% endfor %}",
	"for, limit and offset":    "{% for i in (1..9) limit: 2 offset: 3 %}{{ i }}{% endfor %}",
	"for, reversed":            "{% for i in (1..3) reversed %}{{ i }}{% endfor %}",
	"for, else":                "{% assign x = '' | split: ',' %}{% for i in x %}a{% else %}b{% endfor %}",
	"break and continue":       "{% for i in (1..9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
	"break in a capture":       "{% for i in (1..9) %}{% capture c %}{% break %}{% endcapture %}{{ i }}{% endfor %}.",
	"cycle":                    "{% for i in (1..4) %}{% cycle 'a', 'b' %}{% endfor %}",
	"tablerow":                 "{% tablerow i in (1..3) cols: 2 %}{{ i }}{% endtablerow %}",
	"comment and raw":          "a{% comment %}{{ x }}{% endcomment %}{% raw %}{{ x }}{% endraw %}",
	"open tags that stay":      "{% raw %}{{ a\n{% b{% endraw %}{% comment %}{{ a {% endcomment %}{%- raw -%} {{ {%- endraw -%} c",
	"white space":              "a\n  {%- if true -%}\n  b\n  {%- endif -%}\n c {{- 'd' -}} \n e",
	"operators":                "{% if 1 < 2 and 2 >= 2 or false %}{{ 'abc' contains 'b' }}{% endif %}{{ 'a' == 'b' }}{{ 1 != 2 }}",
	"missing in conditions":    "{% if x.y.z %}a{% endif %}{% if x == nil %}b{% endif %}{{ x.y | default: 'c' }}",
	"arrays":                   "{% assign a = 'x,y,z' | split: ',' %}{{ a[1] }}{{ a.first }}{{ a.last }}{{ a.size }}{{ a[-1] }}",
	"abs":                      "{{ -7.5 | abs }} {{ '-3' | abs }}",
	"append, prepend":          "{{ 'a' | append: 'b' | prepend: 'c' }}",
	"capitalize":               "{{ 'my great title' | capitalize }}",
	"ceil, floor, round":       "{{ 1.2 | ceil }} {{ 1.8 | floor }} {{ 2.7 | round }} {{ 183.357 | round: 2 }}",
	"compact, concat":          "{% assign a = 'x,y' | split: ',' %}{{ a | concat: a | compact | join: '-' }}",
	"default":                  "{{ '' | default: 'a' }} {{ 'b' | default: 'a' }} {{ false | default: 'c' }}",
	"divided_by, modulo":       "{{ 20 | divided_by: 7 }} {{ 20 | divided_by: 7.0 }} {{ 20 | modulo: 7 }}",
	"downcase, upcase":         "{{ 'Parker Moore' | downcase }} {{ 'Parker Moore' | upcase }}",
	"escape, escape_once":      "{{ '1 < 2 & 3' | escape }} {{ '1 &lt; 2 & 3' | escape_once }}",
	"first, last":              "{% assign a = 'x,y' | split: ',' %}{{ a | first }}{{ a | last }}",
	"join, reverse, sort":      "{{ 'b,a,C' | split: ',' | sort | reverse | join: ', ' }}",
	"sort_natural, uniq":       "{{ 'b,a,C,a' | split: ',' | uniq | sort_natural | join: ' ' }}",
	"strip, lstrip, rstrip":    "[{{ ' a ' | strip }}][{{ ' a ' | lstrip }}][{{ ' a ' | rstrip }}]",
	"minus, plus, times":       "{{ 16 | minus: 4 }} {{ 4 | plus: 2.5 }} {{ 3 | times: 7 }}",
	"newline_to_br":            "{% capture n %}a\nb{% endcapture %}{{ n | newline_to_br }} {{ n | strip_newlines }}",
	"remove, remove_first":     "{{ 'rain rain' | remove: 'rain' }} {{ 'rain rain' | remove_first: 'rain' }}",
	"replace, replace_first":   "{{ 'a a' | replace: 'a', 'b' }} {{ 'a a' | replace_first: 'a', 'b' }}",
	"size":                     "{{ 'Ground control' | size }}",
	"slice":                    "{{ 'Liquid' | slice: 0 }}{{ 'Liquid' | slice: 2, 5 }}{{ 'Liquid' | slice: -3, 2 }}",
	"split":                    "{{ 'a b  c' | split: ' ' | join: '-' }}",
	"strip_html":               "{{ 'Have <em>you</em>' | strip_html }}",
	"truncate, truncatewords":  "{{ 'Ground control to Major Tom.' | truncate: 20 }} {{ 'Ground control to Major' | truncatewords: 3, '--' }}",
	"url_encode, url_decode":   "{{ 'a b@c' | url_encode }} {{ 'a%20b' | url_decode }}",
	"json, inspect":            "{{ 'a\"b' | json }} {{ 'x,y' | split: ',' | json }} {{ 1.5 | inspect }}",
	"date":                     "{{ '2006-01-02T15:04:05Z' | date: '%Y %b %d %H:%M' }} {{ '2015-07-17' | date: '%a, %b %d, %y' }} {{ 'March 14, 2016' | date: '%F' }}",
	"chains with parentheses":  "{{ 'a,b' | split: ',' | first | append: '!' | upcase }}",
	"numbers":                  "{{ 1 }} {{ 1.0 }} {{ -3 }} {{ 1 | plus: 1 }}",
	"booleans":                 "{{ true }} {{ false }}",
	"a block in a block":       "{% for i in (1..2) %}{% for j in (1..2) %}{{ i }}{{ j }} {% endfor %}{% endfor %}",
	"assign in a loop":         "{% assign s = '' %}{% for i in (1..3) %}{% assign s = s | append: i %}{% endfor %}{{ s }}",
	"map of a list of nothing": "{{ 'a' | split: ',' | map: 'x' | size }}",
}

// TestEqualToTheLibrary compares each feature with the library, as it is without Leat.
func TestEqualToTheLibrary(t *testing.T) {
	t.Parallel()
	engine := original.NewEngine()
	for name, template := range language {
		want, failure := engine.ParseAndRenderString(template, nil)
		got, _, err := text(t, template)
		if failure != nil || err != nil || got != want || want == "" {
			t.Errorf("%s: got %q, %v, want %q, %v", name, got, err, want, failure)
		}
	}
}

// TestVariables reads what users of Plural have, and Leat's document.
func TestVariables(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		"{{ configuration.TAG }}/{{ configuration['PASSWORD'] }}":                                                         "1.2/hunter2",
		"{{ cluster.name }} {{ cluster.Name }} {{ cluster.handle }} {{ cluster.Handle }}":                                 "eu-1 eu-1 eu-1 eu-1",
		"{{ cluster.version }} {{ cluster.currentVersion }} {{ cluster.CurrentVersion }}":                                 "1.36.1 1.36.1 1.36.1",
		"{{ cluster.tags.region }} {{ cluster.Tags['stage'] }} {{ cluster.metadata.vpc }}":                                "eu prod vpc-1",
		"{{ cluster.labels.region }} {{ cluster.annotations.vpc }} {{ cluster.kubernetesVersion }}":                       "eu vpc-1 v1.36.1",
		"{{ service.name }} {{ service.namespace }}":                                                                      "shop web",
		"{% for c in contexts %}{{ c }}{% else %}none{% endfor %}":                                                        "none",
		"{{ leat.config.TAG }} {{ leat.installed }} {{ leat.facts.service.name }}":                                        "1.2 true shop",
		"{{ leat.facts.cluster.apiVersions | join: ' ' }}":                                                                "apps/v1 v1",
		"{% if leat.facts.cluster.apiVersions contains 'apps/v1' %}yes{% endif %}":                                        "yes",
		"{% for p in configuration %}{{ p[0] }}={{ p[1] }} {% endfor %}":                                                  "PASSWORD=hunter2 REPLICAS=3 TAG=1.2 ",
		"{% for p in cluster.tags %}{{ p | first }} {% endfor %}":                                                         "region stage ",
		"{{ configuration | json }}":                                                                                      `{"PASSWORD":"hunter2","REPLICAS":"3","TAG":"1.2"}`,
		"{{ leat.facts | toJson | size }}":                                                                                "215",
		"{{ configuration | join: ' ' }} {{ configuration | keys | join: ' ' }} {{ configuration | values | join: ' ' }}": "hunter2 3 1.2 PASSWORD REPLICAS TAG hunter2 3 1.2",
	} {
		if got, _, err := text(t, template); got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", template, got, err, want)
		}
	}
}

// TestFiltersOfPlural uses filters that Plural takes from Sprig, with its order of arguments.
func TestFiltersOfPlural(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		"{{ 'a' | b64enc }} {{ 'YQ==' | b64dec }}":                                                                     "YQ== a",
		"{{ 'a' | sha256sum | trunc }}":                                                                                "error",
		"{{ 'a' | quote }} {{ 'a' | squote }} {{ 'a' | upper }}":                                                       `"a" 'a' A`,
		"{% capture n %}a\nb{% endcapture %}{{ n | indent: 2 }}":                                                       "  a\n  b",
		"{{ 'a' | nindent: 2 }}":                                                                                       "\n  a",
		"{{ true | ternary: 'a', 'b' }}{{ false | ternary: 'a', 'b' }}":                                                "ab",
		"{{ x | default: 'a' }}":                                                                                       "a",
		"{{ configuration.TAG | default: 'a' }}":                                                                       "1.2",
		"{{ '>=1.30' | semverCompare: cluster.version }}":                                                              "true",
		"{{ '<1.30' | semver_compare: cluster.version }}":                                                              "false",
		"{% assign d = 'a' | dict: 1 %}{{ d | toJson }}{{ d.a }}":                                                      `{"a":1}1`,
		"{% assign d = 'b' | dict: 1 | set: 'a', 2 %}{{ d | to_json }}":                                                `{"a":2,"b":1}`,
		"{% assign d = configuration | set: 'TAG', 'x' %}{{ d.TAG }}{{ configuration.TAG }}":                           "x1.2",
		`{% assign d = '{"b":[1,{"c":2}],"a":null}' | fromJson %}{{ d.b[1].c }}{% for p in d %}{{ p[0] }}{% endfor %}`: "2ab",
		"{{ 3 | add: 4, 5 }} {{ 7 | sub: 2 }} {{ 7 | div: 2 }} {{ 7 | mod: 2 }} {{ 2 | mul: 3 }} {{ 1 | add1 }}":       "12 5 3 1 6 2",
		"{{ 3 | until | join: ',' }} {{ 1 | untilStep: 7, 3 | join: ',' }}":                                            "0,1,2 1,4",
		"{{ '-' | trimSuffix: 'web-' }} {{ 'v' | trimPrefix: 'v1' }}":                                                  "web 1",
		"{{ 'myService' | kebabcase }} {{ 'my-service' | camelcase }} {{ 'MyService' | snakecase }}":                   "my-service MyService my_service",
		"{{ '[0-9]+' | regexFind: 'a12' }} {{ 'a' | regexReplaceAll: 'banana', 'o' }}":                                 "12 bonono",
		"{{ 'b' | list: 'a' | sortAlpha | join: '' }}":                                                                 "ab",
		"{{ '' | empty }} {{ nil | coalesce: '', 'a' }}":                                                               "true a",
		"{{ 5 | repeat: 'ab' }}":                                                                                       "ababababab",
		"{{ configuration | pick: 'TAG' | toJson }}":                                                                   `{"TAG":"1.2"}`,
		"{{ configuration | hasKey: 'TAG' }} {{ configuration | hasKey: 'X' }}":                                        "true false",
		"{{ 'https://a.example:1/b?c' | urlParse | toRawJson }}":                                                       `{"fragment":"","host":"a.example:1","hostname":"a.example","opaque":"","path":"/b","query":"c","scheme":"https","userinfo":""}`,
		"{{ 'a/b.c' | base }} {{ 'a/b.c' | dir }} {{ 'a/b.c' | ext }}":                                                 "b.c a .c",
	} {
		got, _, err := text(t, template)
		if want == "error" && err == nil || want != "error" && (got != want || err != nil) {
			t.Errorf("%s: got %q, %v, want %q", template, got, err, want)
		}
	}
}

// ofPlural are the filters that Plural documents (pluralsh/polly/docs/liquid-filters.md).
var ofPlural = strings.Fields(`
	abbrev abbrevboth add add1 add1f addf adler32sum ago all any append atoi b32dec b32enc b64dec b64enc base bcrypt biggest buildCustomCert camelcase
	cat ceil chunk clean coalesce compact concat contains date dateInZone dateModify date_in_zone date_modify decryptAES deepCopy deepEqual default
	derivePassword dict dig dir div divf duration durationRound empty encryptAES env expandenv ext fail first float64 floor fromJson from_json genCA
	genCAWithKey genPrivateKey genSelfSignedCert genSelfSignedCertWithKey genSignedCert genSignedCertWithKey get getHostByName has hasKey hasPrefix
	hasSuffix htmlDate htmlDateInZone htpasswd indent initial initials int int64 isAbs join kebabcase keys kindIs kindOf last list lower max maxf merge
	mergeOverwrite min minf mod mul mulf mustAppend mustChunk mustCompact mustDateModify mustDeepCopy mustFirst mustFromJson mustHas mustInitial
	mustLast mustMerge mustMergeOverwrite mustPrepend mustPush mustRegexFind mustRegexFindAll mustRegexMatch mustRegexReplaceAll
	mustRegexReplaceAllLiteral mustRegexSplit mustRest mustReverse mustSlice mustToDate mustToJson mustToPrettyJson mustToRawJson mustUniq mustWithout
	must_date_modify nindent nospace omit osBase osClean osDir osExt osIsAbs pick pluck plural prepend push quote randAlpha randAlphaNum randAscii
	randBytes randInt randNumeric regexFind regexFindAll regexMatch regexQuoteMeta regexReplaceAll regexReplaceAllLiteral regexSplit repeat replace
	rest reverse round semver semverCompare semver_compare seq set sha1sum sha256sum sha26sum sha512sum shuffle slice snakecase sortAlpha split
	splitList splitn squote sub subf substr swapcase ternary title toDate toDecimal toJson to_json toPrettyJson toRawJson toString toStrings trim
	trimAll trimPrefix trimSuffix trimall trunc tuple typeIs typeIsLike typeOf uniq unixEpoch unset until untilStep untitle upper urlJoin urlParse
	values without wrap wrapWith`)

// TestEveryFilterOfPluralIsKnown expects each to work, or to explain why it is refused.
func TestEveryFilterOfPluralIsKnown(t *testing.T) {
	t.Parallel()
	for _, name := range ofPlural {
		if _, _, err := text(t, "{{ 'a' | "+name+" }}"); err != nil && strings.Contains(err.Error(), "undefined filter") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConform(t *testing.T) {
	t.Parallel()
	rendertest.Conform(t, liquid.Renderer{}, input(map[string]string{
		"a.yaml.liquid":   "{{ configuration.TAG }}{% for p in cluster.tags %}{{ p }}{% endfor %}{{ leat | json }}{{ configuration | merge: cluster | values }}",
		"b/c.yaml.liquid": "{% include '../d.txt' %}", "d.txt": "{{ service.name }}",
	}, ""))
}

// TestExample runs the example of docs/guides/renderers.md.
func TestExample(t *testing.T) {
	t.Parallel()
	files, want := rendertest.Example(t, "Liquid")
	in := input(files, "shop")
	in.Variables.Values["TAG"] = "1.4.2"
	got, err := liquid.Renderer{}.RenderStep(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got.Files["shop/web.yaml"])); diff != "" || len(got.Files) != 1 {
		t.Errorf("output (-documented +got):\n%s", diff)
	}
}

func TestFilesAreRenderedInPlace(t *testing.T) {
	t.Parallel()
	got, err := liquid.Renderer{}.RenderStep(t.Context(), input(map[string]string{
		"web/a.yaml.liquid": "a: {{ 1 }}", "web/b.yaml": "b: {{ 1 }}", "web/c/values.yaml.liquid": "c", "other/d.yaml.liquid": "{{ none }}",
		"web/e.yaml.liquid": "same", "web/e.yaml": "same", "web/f.liquid/g": "not a template",
	}, "web"))
	want := map[string][]byte{"web/a.yaml": []byte("a: 1"), "web/c/values.yaml": []byte("c"), "web/e.yaml": []byte("same")}
	if diff := cmp.Diff(want, got.Files); diff != "" || err != nil || got.Documents != nil {
		t.Errorf("files: %v (-want +got):\n%s", err, diff)
	}
}

func TestIncludes(t *testing.T) {
	t.Parallel()
	got, err := liquid.Renderer{}.RenderStep(t.Context(), input(map[string]string{
		"web/a.yaml.liquid": "{% assign x = 1 %}{% include 'b.txt' %}{% include '../lib/c.txt' %}{{ x }}",
		"web/b.txt":         "b{{ x }}{% assign x = 2 %}", "lib/c.txt": "c{% include 'd.txt' %}", "lib/d.txt": "d{{ service.name }}\n",
	}, "web"))
	if text := string(got.Files["web/a.yaml"]); text != "b1cdshop\n1" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestAsked(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]render.Asked{
		"{{ configuration.TAG }}{{ service.name }}{{ leat.config.TAG }}{{ leat.installed }}": {},
		"{% if false %}{{ cluster.name }}{% endif %}":                                        {},
		"{{ cluster.name }}":                          {Facts: true},
		"{% for p in cluster %}{{ p }}{% endfor %}":   {Facts: true},
		"{{ leat.facts.service.name }}":               {Facts: true},
		"{{ leat.facts.cluster.apiVersions | size }}": {Facts: true, APIVersions: true},
		"{{ leat | json }}":                           {Facts: true, APIVersions: true},
		"{{ leat }}":                                  {Facts: true, APIVersions: true},
		"{% for p in leat %}{% for q in p %}{{ q }}{% endfor %}{% endfor %}": {Facts: true, APIVersions: true},
		"{{ leat | toJson }}":          {Facts: true, APIVersions: true},
		"{{ leat | deepEqual: leat }}": {Facts: true, APIVersions: true},
	} {
		_, output, err := text(t, template)
		if output.Asked != want || err != nil {
			t.Errorf("%s: got %+v, %v, want %+v", template, output.Asked, err, want)
		}
	}
}

func TestErrorsHavePositions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"missing value":              {map[string]string{"a.txt.liquid": "a\n\nb: {{ configuration.NONE }}\n"}, `a.txt.liquid:3: undefined variable, in "b: {{ configuration.NONE }}"`},
		"missing variable":           {map[string]string{"a.txt.liquid": "{{ none.a }}"}, `a.txt.liquid:1: undefined variable`},
		"missing before a filter":    {map[string]string{"a.txt.liquid": "\n{{ configuration.NONE | b64enc }}"}, `a.txt.liquid:2: error applying filter "b64enc" ("the variable has no value; add it to the configuration`},
		"missing as an argument":     {map[string]string{"a.txt.liquid": "{{ 'a' | append: none }}"}, `a.txt.liquid:1: error applying filter "append" ("the variable has no value`},
		"missing in a block":         {map[string]string{"a.txt.liquid": "{% if true %}\n{% for i in (1..2) %}\n{{ none }}\n{% endfor %}\n{% endif %}"}, `a.txt.liquid:3: undefined variable, in "{{ none }}"`},
		"missing in a capture":       {map[string]string{"a.txt.liquid": "{% capture x %}\n{{ none }}\n{% endcapture %}"}, `a.txt.liquid:2: undefined variable`},
		"unknown filter":             {map[string]string{"a.txt.liquid": "{{ 'a' | none }}"}, `a.txt.liquid:1: undefined filter "none"`},
		"unknown tag":                {map[string]string{"a.txt.liquid": "\n{% none %}"}, `a.txt.liquid:2: undefined tag "none"`},
		"an open block":              {map[string]string{"a.txt.liquid": "{% if true %}"}, `a.txt.liquid:1: unterminated "if" block`},
		"syntax":                     {map[string]string{"a.txt.liquid": "{{ a b }}"}, `a.txt.liquid:1: syntax error`},
		"chance":                     {map[string]string{"a.txt.liquid": "{{ 10 | randAlphaNum }}"}, `a.txt.liquid:1: error applying filter "randAlphaNum" ("is not offered: its result depends on chance`},
		"the clock":                  {map[string]string{"a.txt.liquid": "{{ 'now' | date: '%Y' }}"}, `a.txt.liquid:1: error applying filter "date"`},
		"fail":                       {map[string]string{"a.txt.liquid": "{{ 'no region' | fail }}"}, `a.txt.liquid:1: error applying filter "fail" ("no region")`},
		"a filter that panics":       {map[string]string{"a.txt.liquid": "\n{{ '0' | div: 0 }}"}, `a.txt.liquid:2: error applying filter "div" ("runtime error: integer divide by zero")`},
		"a conversion":               {map[string]string{"a.txt.liquid": "{{ 'a' | plus: 1 }}"}, `a.txt.liquid:1: `},
		"an error in an include":     {map[string]string{"a.txt.liquid": "\n\n{% include 'b' %}", "b": "\n{{ none }}"}, `b:2: undefined variable`},
		"an include of nothing":      {map[string]string{"a/a.txt.liquid": "{% include 'b' %}"}, `a/a.txt.liquid:1: cannot include "b": no such file; looked for a/b`},
		"an include without a name":  {map[string]string{"a.txt.liquid": "{% include 1 %}"}, `a.txt.liquid:1: include needs the name of a file`},
		"a file that exists":         {map[string]string{"a.txt.liquid": "a", "a.txt": "b"}, "a.txt.liquid: a.txt exists, too, and has other content"},
		"a template without a name":  {map[string]string{"a/.liquid": "a"}, "a/.liquid: has no name but the extension"},
		"an endless cycle":           {map[string]string{"a.txt.liquid": "{% cycle 'a' %}"}, `a.txt.liquid:1: cycle must be within a forloop`},
		"a range of too much":        {map[string]string{"a.txt.liquid": "{{ (1..9999999999) | join }}"}, `a.txt.liquid: a range has more than`},
		"a filter with too much":     {map[string]string{"a.txt.liquid": "{{ 'a' | upcase: 1, 2, 3, 4 }}"}, `a.txt.liquid:1: error applying filter "upcase" ("wrong number of arguments`},
		"an open tag":                {map[string]string{"a.txt.liquid": "a\n{{ 'a'\n| upcase }}"}, `a.txt.liquid:2: {{ has no }} in its line`},
		"an open statement":          {map[string]string{"a.txt.liquid": "{% if true"}, `a.txt.liquid:1: {% has no %} in its line`},
		"a pattern that is too long": {map[string]string{"a.txt.liquid": "{{ 'a' | truncate: 5000 }}"}, `a.txt.liquid:1: error applying filter "truncate"`},
	} {
		got, err := liquid.Renderer{}.RenderStep(t.Context(), input(test.files, ""))
		problem, limit := new(render.Error), new(render.LimitError)
		if !errors.As(err, &problem) && !errors.As(err, &limit) || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, %v, want %s", name, maps.Keys(got.Files) != nil, err, test.want)
		}
	}
}
