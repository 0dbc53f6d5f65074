// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// link is a link of a page to another place in the tree.
type link struct {
	line   int
	target string // the path from the root, without the anchor
	anchor string
}

// markdown holds the parts of a page that the tests of links need.
type markdown struct {
	links   []link
	anchors []string
}

var (
	// inlineLink is a link with its text. The first group is the text, the second one the target.
	inlineLink = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)
	// absolute is the beginning of a target outside of the tree.
	absolute = regexp.MustCompile(`^[a-z]+:`)
	// heading is a heading with its text.
	heading = regexp.MustCompile(`^#{1,6} +(.+)$`)
	// pageInText is the path of a page in a comment, a message or a setting, from the root or, in
	// tests, from the folder of the package.
	pageInText = regexp.MustCompile(`(?:^|[^\w/.-])(?:\.\./)*(docs/[\w./-]+\.md)`)
)

// TestLinksLeadSomewhere follows each relative link of each page, including generated ones: to a
// file or folder that Git tracks, and to a heading of that page.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	pages := readPages(t)
	exists := paths(trackedFiles(t))
	for _, file := range slices.Sorted(maps.Keys(pages)) {
		for _, link := range pages[file].links {
			target, isPage := pages[link.target]
			switch {
			case !exists[link.target]:
				t.Errorf("%s:%d: links to %s, which does not exist", file, link.line, link.target)
			case link.anchor == "":
			case !isPage:
				t.Errorf("%s:%d: links to #%s of %s, which is not a page", file, link.line, link.anchor, link.target)
			case !slices.Contains(target.anchors, link.anchor):
				t.Errorf("%s:%d: links to #%s of %s, which has no such heading", file, link.line, link.anchor, link.target)
			}
		}
	}
}

// TestEveryPageIsReached follows links from README and from the index of the documentation. An
// unreachable page is not read, and its errors are not noticed.
func TestEveryPageIsReached(t *testing.T) {
	t.Parallel()
	pages := readPages(t)
	isReached := map[string]bool{}
	for next := []string{"README.md", "docs/README.md"}; len(next) > 0; next = next[1:] {
		file := next[0]
		if isReached[file] {
			continue
		}
		isReached[file] = true
		for _, link := range pages[file].links {
			for _, target := range []string{link.target, path.Join(link.target, "README.md")} {
				if _, isPage := pages[target]; isPage {
					next = append(next, target)
				}
			}
		}
	}
	for _, file := range slices.Sorted(maps.Keys(pages)) {
		if !isReached[file] && !isContent(file) {
			t.Errorf("%s: no link leads to it from README.md or docs/README.md; add it to the index", file)
		}
	}
}

// TestPagesInTextExist finds the paths of pages in comments, messages, settings and tests, which do
// not move with the page that they name.
func TestPagesInTextExist(t *testing.T) {
	t.Parallel()
	files := trackedFiles(t)
	exists := paths(files)
	for _, file := range files {
		if strings.HasSuffix(file, ".binpb") || file == "test/arch/links_test.go" {
			continue
		}
		for number, line := range readLines(t, file) {
			for _, match := range pageInText.FindAllStringSubmatch(line, -1) {
				if !exists[match[1]] {
					t.Errorf("%s:%d: names %s, which does not exist", file, number+1, match[1])
				}
			}
		}
	}
}

// TestReadmeShowsExamples compares the documents in README with the examples, which other tests apply.
func TestReadmeShowsExamples(t *testing.T) {
	t.Parallel()
	var examples strings.Builder
	for _, file := range trackedFiles(t) {
		if strings.HasPrefix(file, "examples/") && strings.HasSuffix(file, ".yaml") {
			examples.WriteString("\n" + strings.Join(readLines(t, file), "\n"))
		}
	}
	shown := regexp.MustCompile("(?s)\n```yaml(\n.*?\n)```\n").
		FindAllStringSubmatch(strings.Join(readLines(t, "README.md"), "\n"), -1)
	if len(shown) == 0 {
		t.Error("README.md shows no document")
	}
	for _, match := range shown {
		if !strings.Contains(examples.String(), match[1]) {
			t.Errorf("README.md shows a document that is in no file of examples/:\n%s", match[1])
		}
	}
}

// TestLinksAreRead holds the reader of pages to what GitHub makes of them.
func TestLinksAreRead(t *testing.T) {
	t.Parallel()
	got := parsePage("docs/guides/a.md", strings.Split("# What `leat up` starts, and *why*\n"+
		"See [b](b.md#x-y) and [c](../../c), [here](#again) and [the web](https://example.com/docs/d.md).\n"+
		"`[not](a-link.md)`\n"+
		"```sh\n# not a heading [nor](a-link.md)\n```\n"+
		"## Again\n## Again\n### [A link](d.md): ports & `a_b`\n", "\n"))
	want := markdown{
		links: []link{
			{line: 2, target: "docs/guides/b.md", anchor: "x-y"},
			{line: 2, target: "c"},
			{line: 2, target: "docs/guides/a.md", anchor: "again"},
			{line: 9, target: "docs/guides/d.md"},
		},
		anchors: []string{"what-leat-up-starts-and-why", "again", "again-1", "a-link-ports--a_b"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(markdown{}, link{})); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
}

// readPages returns the pages of the tree by their path, without test data.
func readPages(t *testing.T) map[string]markdown {
	t.Helper()
	pages := map[string]markdown{}
	for _, file := range filter(trackedFiles(t), ".md") {
		if !strings.Contains(file, "testdata/") {
			pages[file] = parsePage(file, readLines(t, file))
		}
	}
	return pages
}

// parsePage returns the links and the anchors of a page. Blocks of code have neither.
func parsePage(file string, lines []string) markdown {
	var page markdown
	seen := map[string]int{}
	isCode := false
	for number, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			isCode = !isCode
		}
		if isCode {
			continue
		}
		if match := heading.FindStringSubmatch(line); match != nil {
			page.anchors = append(page.anchors, anchorOf(match[1], seen))
		}
		for _, match := range inlineLink.FindAllStringSubmatch(quoted.ReplaceAllString(line, "x"), -1) {
			if absolute.MatchString(match[2]) {
				continue
			}
			target, anchor, _ := strings.Cut(match[2], "#")
			if target == "" {
				target = path.Base(file)
			}
			page.links = append(page.links, link{number + 1, path.Join(path.Dir(file), target), anchor})
		}
	}
	return page
}

// anchorOf returns the anchor that GitHub gives to a heading: its letters, digits, hyphens and
// underscores in lower case, with a hyphen for each space. seen counts the earlier headings of the
// page with the same anchor, which get a number.
func anchorOf(heading string, seen map[string]int) string {
	text := strings.ToLower(inlineLink.ReplaceAllString(heading, "$1"))
	anchor := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return r
		}
		return -1
	}, strings.TrimSpace(text))
	defer func() { seen[anchor]++ }()
	if earlier := seen[anchor]; earlier > 0 {
		return fmt.Sprintf("%s-%d", anchor, earlier)
	}
	return anchor
}

// isContent reports whether a page belongs to a repository that Leat delivers, or is read by GitHub.
func isContent(file string) bool {
	return strings.HasPrefix(file, ".github/") || strings.HasPrefix(file, "examples/demo/") ||
		strings.HasPrefix(file, "cli/internal/up/demo/")
}

// paths returns the set of the files and of all folders that hold them.
func paths(files []string) map[string]bool {
	exists := map[string]bool{".": true}
	for _, file := range files {
		for at := file; at != "."; at = path.Dir(at) {
			exists[at] = true
		}
	}
	return exists
}

// TestPagesOfServicesAreAlike lets a reader find the same subject at the same place in the page of
// each service.
func TestPagesOfServicesAreAlike(t *testing.T) {
	t.Parallel()
	want := []string{
		"What it owns", "Run it", "How it works", "Replicas", "Bounds", "When something fails", "What to watch", "Inside",
	}
	for _, service := range []string{"agent", "distributor", "gitcache", "tunnel"} {
		file := "services/" + service + "/README.md"
		var headings []string
		for _, line := range readLines(t, file) {
			if heading, is := strings.CutPrefix(line, "## "); is {
				headings = append(headings, heading)
			}
		}
		if !slices.Equal(headings, want) {
			t.Errorf("%s: has the headings %q, want %q", file, headings, want)
		}
	}
}
