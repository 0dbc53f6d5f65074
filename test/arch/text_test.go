// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// plainWord is a habit of translated English that TestPlainEnglish finds.
type plainWord struct {
	pattern *regexp.Regexp
	// except spares a match, together with the text that follows it.
	except *regexp.Regexp
	// instead says why the words are refused, and what to write.
	instead string
}

// plainWords are the habits that a pattern can find. CONTRIBUTING.md has the rules behind them.
var plainWords = []plainWord{
	{regexp.MustCompile(`(?i)\bwhoever\b`), nil, "name the actor: the caller, the peer, the operator"},
	{regexp.MustCompile(`\b(for|than) who\b`), nil, "name the actor: for callers that …, than those that …"},
	{
		regexp.MustCompile(`\btells? (whether|that|what|who|how|when|where|which)\b`), nil,
		"use the exact verb: reports whether, returns, names, shows",
	},
	{
		regexp.MustCompile(`\b(that|which|it) (is|are) (none|no [a-z]+)\b`),
		regexp.MustCompile(`^(that|which|it) (is|are) no (longer|more|less|[a-z]+er)\b`),
		"negate the verb, not the noun: that is not a …, an invalid …",
	},
	{regexp.MustCompile(`(?i)\banew\b`), nil, "write again"},
	{regexp.MustCompile(`(?i)\blikewise\b`), nil, "write also"},
	{regexp.MustCompile(`(?i)\bat the (most|least)\b`), nil, "write at most, at least"},
	{regexp.MustCompile(`\bfor good\b`), nil, "write permanently"},
	{regexp.MustCompile(`\ball the same\b`), nil, "write anyway"},
	{regexp.MustCompile(`\bas good as (no|none|nothing|all|every|any|never)\b`), nil, "write almost"},
	{regexp.MustCompile(`\b(has|have) got\b`), nil, "write has, have"},
	{regexp.MustCompile(`(?i)\b(he|him|his|himself)\b`), nil, "a program is it, a person is they"},
	{regexp.MustCompile(`\b(heeds?|mends?|mended)\b`), nil, "write follows, obeys; fixes, recovers"},
}

// TestPlainEnglish looks for the habits in Go comments, proto comments and Markdown.
func TestPlainEnglish(t *testing.T) {
	t.Parallel()
	for _, file := range texts(t) {
		for number, line := range readLines(t, file) {
			text, isText := prose(file, line)
			if !isText {
				continue
			}
			for _, word := range plainWords {
				at := word.pattern.FindStringIndex(text)
				if at == nil || word.except != nil && word.except.MatchString(text[at[0]:]) {
					continue
				}
				t.Errorf("%s:%d: %q: %s", file, number+1, text[at[0]:at[1]], word.instead)
			}
		}
	}
}

// quoted are names and texts of programs, which are not prose.
var quoted = regexp.MustCompile("`[^`]*`" + `|"[^"]*"`)

// comment finds a comment of Go or proto that stands alone or follows code.
var comment = regexp.MustCompile(`(?:^|\s)// (.*)$`)

// prose returns the part of a line that people read as text.
func prose(file, line string) (text string, isText bool) {
	if !strings.HasSuffix(file, ".md") {
		match := comment.FindStringSubmatch(line)
		if match == nil {
			return "", false
		}
		line = match[1]
	}
	return quoted.ReplaceAllString(line, ""), true
}

// texts returns the hand-written files of Go, proto and Markdown.
func texts(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(trackedFiles(t), func(file string) bool {
		written := strings.HasSuffix(file, ".go") || strings.HasSuffix(file, ".proto") || strings.HasSuffix(file, ".md")
		return !written || strings.HasPrefix(file, "gen/") || strings.Contains(file, "testdata/") ||
			slices.Contains(generatedPages, file) || file == "test/arch/text_test.go"
	})
}

// generatedPages are written by make generate.
var generatedPages = []string{
	"docs/reference/config.md", "docs/reference/errors.md", "docs/reference/metrics.md", "docs/reference/health-kinds.md",
}

// sentenceEnd is the end of a sentence with the beginning of another one behind it.
var sentenceEnd = regexp.MustCompile(`[a-z0-9%)][.!?]["'*_)]* +[A-Z]`)

// listMark begins an item of a list.
var listMark = regexp.MustCompile(`^\s*([-*]|[0-9]+\.) `)

// TestMarkdownHasASentenceALine keeps diffs readable: a changed word is a changed sentence, not a
// changed paragraph.
func TestMarkdownHasASentenceALine(t *testing.T) {
	t.Parallel()
	for _, file := range filter(texts(t), ".md") {
		isCode := false
		for number, line := range readLines(t, file) {
			trimmed := strings.TrimSpace(line)
			if strings.HasPrefix(trimmed, "```") {
				isCode = !isCode
			}
			if isCode || strings.HasPrefix(trimmed, "|") || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(line, "    ") {
				continue
			}
			if end := sentenceEnd.FindStringIndex(outsideParentheses(quoted.ReplaceAllString(listMark.ReplaceAllString(line, ""), "x"))); end != nil {
				t.Errorf("%s:%d: has two sentences; put each on a line of its own", file, number+1)
			}
		}
	}
}

// outsideParentheses returns text without what is in parentheses: sentences there stay where they
// are.
func outsideParentheses(text string) string {
	var outside strings.Builder
	depth := 0
	for _, r := range text {
		switch {
		case r == '(' || r == '[':
			depth++
		case r == ')' || r == ']':
			depth = max(0, depth-1)
		case depth == 0:
			outside.WriteRune(r)
		}
	}
	return outside.String()
}

var (
	// decisionFile is the path of a decision. Its number is the first group.
	decisionFile = regexp.MustCompile(`^docs/adr/([0-9]{4})-[a-z0-9-]+\.md$`)
	// decisionStatus is the third line of a decision.
	decisionStatus = regexp.MustCompile(`^Status: (accepted|(amended|superseded) by \[[0-9]{4}\]\([^)]+\).*)\.$`)
	// decisionLink is a link from one decision to another.
	decisionLink = regexp.MustCompile(`\[([0-9]{4})\]\(([^)]+)\)`)
)

// TestDecisionsHaveAStatus keeps a reader from following a decision that was changed later: each
// page says on its third line whether it still holds, and which page changed it. The index repeats
// that.
func TestDecisionsHaveAStatus(t *testing.T) {
	t.Parallel()
	index := strings.Join(readLines(t, "docs/adr/README.md"), "\n")
	for _, file := range trackedFiles(t) {
		number := decisionFile.FindStringSubmatch(file)
		if number == nil {
			continue
		}
		lines := readLines(t, file)
		if len(lines) < 3 || !decisionStatus.MatchString(lines[2]) {
			t.Errorf("%s: the third line is not a status; write \"Status: accepted.\", "+
				"\"Status: amended by [NNNN](file) (what changed).\" or \"Status: superseded by [NNNN](file).\"", file)
			continue
		}
		title := strings.TrimPrefix(lines[0], "# "+number[1]+": ")
		row := fmt.Sprintf("| [%s](%s) | %s | %s |", number[1], filepath.Base(file), title, shortStatus(lines[2]))
		if !strings.Contains(index, row) {
			t.Errorf("docs/adr/README.md: has no row\n%s", row)
		}
		for _, link := range decisionLink.FindAllStringSubmatch(lines[2], -1) {
			checkSuccessor(t, file, number[1], link[1], link[2], strings.HasPrefix(lines[2], "Status: superseded"))
		}
	}
}

// shortStatus returns the status for the index: the verb and the numbers.
func shortStatus(line string) string {
	status, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(line, "Status: "), "."), " by ")
	var by []string
	for _, link := range decisionLink.FindAllStringSubmatch(line, -1) {
		by = append(by, link[1])
	}
	if len(by) == 0 {
		return status
	}
	return status + " by " + strings.Join(by, ", ")
}

// checkSuccessor requires that the page that changed a decision exists, and that it names the page
// that it supersedes.
func checkSuccessor(t *testing.T, file, number, successor, target string, isSuperseded bool) {
	t.Helper()
	path := filepath.Join("docs/adr", target)
	content, err := os.ReadFile(filepath.Join("..", "..", path))
	if err != nil || !strings.HasPrefix(target, successor+"-") {
		t.Errorf("%s: its status names %s as %s, which does not exist; link to the page that changed it", file, target, successor)
		return
	}
	if isSuperseded && !strings.Contains(string(content), number) {
		t.Errorf("%s: does not name %s, which it supersedes; say so in its context", path, number)
	}
}

var (
	// silencer is a comment that silences a linter on its line.
	silencer = regexp.MustCompile(`//\s?nolint(:([a-z0-9_,]+))?( // \S)?`)
	// linter is an enabled linter in .golangci.yml.
	linter = regexp.MustCompile(`(?m)^    - ([a-z0-9_]+)( #.*)?$`)
	// silenceable are the linters that .golangci.yml lets a comment silence.
	silenceable = regexp.MustCompile(`(?m)^# nolint: (.+)$`)
)

// TestSilencedLintersMayBe refuses comments that silence a linter which does not run or which
// .golangci.yml does not let a comment silence, or that give no reason.
func TestSilencedLintersMayBe(t *testing.T) {
	t.Parallel()
	settings := strings.Join(readLines(t, ".golangci.yml"), "\n")
	isEnabled, mayBe := map[string]bool{}, map[string]bool{}
	for _, match := range linter.FindAllStringSubmatch(settings, -1) {
		isEnabled[match[1]] = true
	}
	list := silenceable.FindStringSubmatch(settings)
	if list == nil {
		t.Fatal(".golangci.yml: found no list of linters that comments may silence")
	}
	for _, name := range strings.Fields(list[1]) {
		if mayBe[name] = isEnabled[name]; !isEnabled[name] {
			t.Errorf(".golangci.yml: comments may silence %s, which is not enabled", name)
		}
	}
	for _, file := range filter(trackedFiles(t), ".go") {
		if file == "test/arch/text_test.go" {
			continue
		}
		for number, line := range readLines(t, file) {
			match := silencer.FindStringSubmatch(line)
			if match == nil {
				continue
			}
			if match[2] == "" || match[3] == "" {
				t.Errorf("%s:%d: name the linter and a reason: //nolint:NAME // why", file, number+1)
			}
			for _, name := range strings.Split(match[2], ",") {
				if name != "" && !mayBe[name] {
					t.Errorf("%s:%d: .golangci.yml lets no comment silence %q; change the code, or write the exception there", file, number+1, name)
				}
			}
		}
	}
}

// readLines returns the lines of a file below the root.
func readLines(t *testing.T, file string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(content), "\n")
}
