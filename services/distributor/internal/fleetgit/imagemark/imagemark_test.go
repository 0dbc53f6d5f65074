// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package imagemark_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/services/distributor/internal/fleetgit/imagemark"
)

const policy = "shop/web"

var (
	sum    = "sha256:" + strings.Repeat("ab", 32)
	tagged = imagemark.Values{Tag: "2.0.0"}
	pinned = imagemark.Values{Tag: "2.0.0", Digest: sum}
)

func TestRewrite(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		values   imagemark.Values
		from, to string
	}{
		"an image":            {tagged, "image: r.example/web:1.0.0 # leat: image=shop/web\n", "image: r.example/web:2.0.0 # leat: image=shop/web\n"},
		"a pinned image":      {pinned, "image: web:1.0.0 # leat: image=shop/web\n", "image: web:2.0.0@" + sum + " # leat: image=shop/web\n"},
		"a pin that is lost":  {tagged, "image: web:1.0.0@" + sum + " # leat: image=shop/web\n", "image: web:2.0.0 # leat: image=shop/web\n"},
		"a name alone":        {tagged, "image: web # leat: image=shop/web\n", "image: web:2.0.0 # leat: image=shop/web\n"},
		"a port":              {tagged, "image: r.example:5000/web # leat: image=shop/web\n", "image: r.example:5000/web:2.0.0 # leat: image=shop/web\n"},
		"a list":              {tagged, "- image: web:1 # leat: image=shop/web\n  name: x\n", "- image: web:2.0.0 # leat: image=shop/web\n  name: x\n"},
		"an item":             {tagged, "a:\n- web:1 # leat: image=shop/web\n", "a:\n- web:2.0.0 # leat: image=shop/web\n"},
		"single quotes":       {tagged, "tag: '1.0.0'\t# leat: tag=shop/web", "tag: '2.0.0'\t# leat: tag=shop/web"},
		"double quotes":       {tagged, "tag: \"1.0.0\"   #leat:tag=shop/web  \r\nb: 1\r\n", "tag: \"2.0.0\"   #leat:tag=shop/web  \r\nb: 1\r\n"},
		"a digest":            {pinned, "digest: sha256:00 # leat: digest=shop/web\n", "digest: " + sum + " # leat: digest=shop/web\n"},
		"a byte order mark":   {tagged, "\ufefftag: 1.0.0 # leat: tag=shop/web\n", "\ufefftag: 2.0.0 # leat: tag=shop/web\n"},
		"wide letters":        {tagged, "ключ: 1.0.0 # leat: tag=shop/web\n", "ключ: 2.0.0 # leat: tag=shop/web\n"},
		"several documents":   {tagged, "a: 1\n---\ntag: 1.0.0 # leat: tag=shop/web\n", "a: 1\n---\ntag: 2.0.0 # leat: tag=shop/web\n"},
		"a number becomes":    {imagemark.Values{Tag: "1.10"}, "tag: 1.9 # leat: tag=shop/web\n", "tag: \"1.10\" # leat: tag=shop/web\n"},
		"the same number":     {imagemark.Values{Tag: "1.10"}, "tag: 1.10 # leat: tag=shop/web\n", "tag: \"1.10\" # leat: tag=shop/web\n"},
		"a word of YAML":      {imagemark.Values{Tag: "on"}, "tag: x # leat: tag=shop/web\n", "tag: \"on\" # leat: tag=shop/web\n"},
		"a comment before":    {tagged, "tag: 1 # see leat # leat: tag=shop/web\n", ""},
		"what others name":    {tagged, "tag: 1 # leat: tag=shop/other\ntag2: 1 # leat: tag=web\nt: 1 # leat: tag=shop/web2\n", ""},
		"already written":     {tagged, "tag: 2.0.0 # leat: tag=shop/web\n", ""},
		"a text":              {tagged, "tag: \"1 # leat: tag=shop/web\"\n", ""},
		"nothing":             {tagged, "", ""},
		"a key without value": {tagged, "tag: # leat: tag=shop/web\n  1.0.0\n", ""},
	} {
		got, _ := imagemark.Rewrite([]byte(test.from), policy, test.values)
		want := test.to
		if want == "" {
			want = test.from
		}
		if string(got) != want {
			t.Errorf("%s: got\n%q, want\n%q", name, got, want)
		}
	}
}

// TestSecMarksThatCannotBeUsed has marks where no single scalar is theirs. Nothing may change.
func TestSecMarksThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"a: {tag: 1} # leat: tag=shop/web\n":                          "brackets",
		"a: [1] # leat: tag=shop/web\n":                               "brackets",
		"a: |\n  tag: 1 # leat: tag=shop/web\n":                       "part of a text",
		"a: | # leat: tag=shop/web\n  1\n":                            "several lines",
		"a: >-\n  tag: 1 # leat: tag=shop/web\n  x\n":                 "part of a text",
		"tag: \"1\n  # leat: tag=shop/web\n  \"\n":                    "part of a text",
		"tag: '1 # leat: tag=shop/web\n  '\n":                         "text",
		"tag: &a 1 # leat: tag=shop/web\n":                            "an anchor",
		"b: &a 1\ntag: *a # leat: tag=shop/web\n":                     "not a plain or quoted text",
		"tag: !!str 1 # leat: tag=shop/web\n":                         "a tag",
		"tag: \"\\x31\" # leat: tag=shop/web\n":                       "escapes",
		"tag: 'it''s' # leat: tag=shop/web\n":                         "escapes",
		"tag: # leat: tag=shop/web\n":                                 "",
		"# leat: tag=shop/web\ntag: 1\n":                              "no value",
		"tag: 1 # leat: tag=shop/web please\n":                        "not at the end",
		"tag: 1 # leat: version=shop/web\n":                           `"version"`,
		"image: '' # leat: image=shop/web\n":                          "not an image",
		"image: 'a b' # leat: image=shop/web\n":                       "not an image",
		"image: 'a:b:c/' # leat: image=shop/web\n":                    "",
		"image: web@1 # leat: image=shop/web\n":                       "not an image",
		"image: -w:1 # leat: image=shop/web\n":                        "not an image",
		"digest: x # leat: digest=shop/web\n":                         "spec.pinDigest",
		"tag: {{ .Tag }} # leat: tag=shop/web\n":                      "",
		"a: b: c\ntag: 1 # leat: tag=shop/web\n":                      "not YAML",
		"tag: 1 # leat: tag=shop/web\n\xff":                           "UTF-8",
		"# x\u2028tag: 1 # leat: tag=shop/web\n":                      "line ends",
		"# x\rtag: 1 # leat: tag=shop/web\n":                          "line ends",
		"tag: 1 # leat: tag=shop/web\n" + strings.Repeat("[", 300):    "",
		"tag: 1 # leat: tag=shop/web\n#" + strings.Repeat("x", 1<<20): "more than",
	} {
		got, marks := imagemark.Rewrite([]byte(content), policy, tagged)
		if len(marks) != 1 || marks[0].Problem == "" || !strings.Contains(marks[0].Problem, want) {
			t.Errorf("%.60q: got %+v, want a problem with %q", content, marks, want)
		}
		if string(got) != content {
			t.Errorf("%.60q: changed to %.80q", content, got)
		}
	}
}

// TestMarksOfTheGuide rewrites the examples of the guide.
func TestMarksOfTheGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../../../docs/guides/image-automation.md")
	if err != nil {
		t.Fatal(err)
	}
	marked := 0
	for _, part := range strings.Split(string(guide), "```yaml\n")[1:] {
		example, _, _ := strings.Cut(part, "```")
		got, marks := imagemark.Rewrite([]byte(example), "default/web", pinned)
		for _, mark := range marks {
			if marked++; mark.Problem != "" || mark.From == mark.To || !strings.Contains(string(got), "2.0.0") {
				t.Errorf("%q: got %+v, want a mark that can be used", example, mark)
			}
		}
	}
	if marked != 2 {
		t.Errorf("found %d marks in the guide, want the two that it shows", marked)
	}
}

// TestRewriteCountsLines has lines that can be used beside ones that cannot.
func TestRewriteCountsLines(t *testing.T) {
	t.Parallel()
	content := "a: 1\ntag: 1.0.0 # leat: tag=shop/web\nb: [1] # leat: tag=shop/web\nimage: web:2.0.0 # leat: image=shop/web\n"
	got, marks := imagemark.Rewrite([]byte(content), policy, tagged)
	if !strings.Contains(string(got), "tag: 2.0.0") || len(marks) != 3 {
		t.Fatalf("got %q and %+v, want one changed line of three", got, marks)
	}
	if marks[0] != (imagemark.Mark{Line: 2, From: "1.0.0", To: "2.0.0"}) || marks[1].Line != 3 || marks[1].Problem == "" || marks[2].From != marks[2].To {
		t.Errorf("got %+v", marks)
	}
}

// documents returns the documents of a file.
func documents(content []byte) (all []*yaml.Node, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		one := new(yaml.Node)
		if err := decoder.Decode(one); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
}

// check rewrites a file, and requires all that the package promises of any.
func check(t interface{ Fatalf(string, ...any) }, content []byte, values imagemark.Values) {
	before := bytes.Clone(content)
	got, marks := imagemark.Rewrite(content, policy, values)
	if !bytes.Equal(before, content) {
		t.Fatalf("the content was changed in place")
	}
	marked := map[int]imagemark.Mark{}
	for _, mark := range marks {
		marked[mark.Line] = mark
	}
	from, to := strings.SplitAfter(string(content), "\n"), strings.SplitAfter(string(got), "\n")
	if len(from) != len(to) {
		t.Fatalf("%q: got %d lines of %d", content, len(to), len(from))
	}
	for i := range from {
		mark, isMarked := marked[i+1]
		if from[i] == to[i] {
			continue
		}
		if !isMarked || mark.Problem != "" {
			t.Fatalf("%q: line %d changed, which is not a mark that can be used", content, i+1)
		}
		if strings.Replace(from[i], mark.From, mark.To, 1) != to[i] && len(from[i])-len(mark.From) != len(to[i])-len(mark.To) {
			t.Fatalf("%q: more than the scalar changed: %q", content, to[i])
		}
		if !strings.Contains(to[i], values.Tag) && !strings.Contains(to[i], values.Digest) {
			t.Fatalf("%q: the value is not in %q", content, to[i])
		}
	}
	again, _ := imagemark.Rewrite(got, policy, values)
	if !bytes.Equal(again, got) {
		t.Fatalf("%q: a second time changes %q to %q", content, got, again)
	}
	was, err := documents(content)
	if err != nil || bytes.Equal(content, got) {
		return
	}
	is, err := documents(got)
	if err != nil {
		t.Fatalf("%q: what was written is not YAML: %v", got, err)
	}
	if n := differences(was, is); n < 0 || n > len(marks) {
		t.Fatalf("%q: %d values differ in %q, want %d at most", content, n, got, len(marks))
	}
}

// differences counts the scalars that differ, and returns -1 if anything else does.
func differences(a, b []*yaml.Node) int {
	if len(a) != len(b) {
		return -1
	}
	sum := 0
	for i, x := range a {
		y := b[i]
		if x.Kind != y.Kind || x.Anchor != y.Anchor || x.Kind != yaml.ScalarNode && (x.Tag != y.Tag || x.Value != y.Value) {
			return -1
		}
		if x.Tag != y.Tag || x.Value != y.Value {
			if sum++; y.Tag != "!!str" {
				return -1
			}
		}
		below := differences(x.Content, y.Content)
		if below < 0 {
			return -1
		}
		sum += below
	}
	return sum
}

// TestSecRewriteKeepsTheRest builds files of marked and other lines.
func TestSecRewriteKeepsTheRest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]string{
			"a: 1", "b: [x] # leat: tag=shop/web", "tag: 1.0 # leat: tag=shop/web", "image: 'x/y:1' # leat: image=shop/web", "- z",
			"text: |\n  tag: 1 # leat: tag=shop/web", "d: \"sha256:0\"  # leat: digest=shop/web", "---", "# c", "", "e: other # leat: tag=shop/other",
		})
		end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end")
		lines := rapid.SliceOfN(line, 1, 12).Draw(t, "lines")
		tag := rapid.SampledFrom([]string{"1.2.3", "1.10", "on", "0x1f", "2024-01-01", "_1", "latest", "1e3"}).Draw(t, "tag")
		check(t, []byte(strings.Join(lines, end)), imagemark.Values{Tag: tag, Digest: rapid.SampledFrom([]string{"", sum}).Draw(t, "digest")})
	})
}

func FuzzRewrite(f *testing.F) {
	for _, content := range []string{
		"image: r.example/web:1.0.0 # leat: image=shop/web\n", "- image: 'web:1' # leat: image=shop/web\r\n  digest: sha256:00 # leat: digest=shop/web\r\n",
		"\ufefftag: \"1\" # leat: tag=shop/web", "a: |\n  tag: 1 # leat: tag=shop/web\n---\ntag: 1 # leat: tag=shop/web\n", "a: {tag: 1} # leat: tag=shop/web\n",
		"? tag\n: 1 # leat: tag=shop/web\n", "tag: &a 1 # leat: tag=shop/web\nb: *a\n", "ключ: 1 # leat: tag=shop/web", "%YAML 1.1\n---\ntag: 1 # leat: tag=shop/web\n...\n",
	} {
		f.Add([]byte(content), "1.10", true)
	}
	f.Fuzz(func(t *testing.T, content []byte, tag string, isPinned bool) {
		if len(tag) > 128 || tag == "" || strings.Trim(tag, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" || tag[0] == '.' || tag[0] == '-' {
			t.Skip("not a tag")
		}
		values := imagemark.Values{Tag: tag}
		if isPinned {
			values.Digest = sum
		}
		check(t, content, values)
	})
}
