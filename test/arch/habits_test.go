// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// maxHabit is the bar: how often each habit may occur in 10,000 words. One is good English here and
// there; a page that is full of one reads as if translated.
const maxHabit = 2.0

// habits are counted, not refused. CONTRIBUTING.md has the rules behind them.
var habits = []struct {
	name    string
	pattern *regexp.Regexp
	// except spares a match, together with the text that follows it.
	except *regexp.Regexp
	// instead is the advice on each line.
	instead string
}{
	{"somebody, nobody", regexp.MustCompile(`(?i)\b(some|no)body\b`), nil, "name the actor"},
	{"say, says", regexp.MustCompile(`\bsays?\b`), nil, "a program reports, returns, prints; a document names, sets, lists"},
	{"what is, what are", regexp.MustCompile(`(?i)\bwhat (is|are)\b`), nil, "write the noun: the stored bundle"},
	{"is what, are what", regexp.MustCompile(`\b(is|are) what\b`), nil, "write the noun: is the content that …"},
	{"What or Who as a subject", regexp.MustCompile(`(?:^|[.:;|] +|^[-*] )(What|Who) [^?]*$`), nil, "begin with the noun or the actor"},
	{"those that, of, who", regexp.MustCompile(`\b[Tt]hose (that|of|who)\b`), nil, "repeat the noun: the replicas that …"},
	{"stand, stands", regexp.MustCompile(`\b[Ss]tands?\b`), regexp.MustCompile(`^[Ss]tands?( in)?( for|-in)\b`), "a value is set, stored, listed"},
	{"goes on", regexp.MustCompile(`\b[Gg]o(es)? on\b`), nil, "write continues, keeps running"},
	{"that of", regexp.MustCompile(`\bthat of\b`), nil, "name it again: the name of the agent"},
	{"but for", regexp.MustCompile(`\bbut for\b`), nil, "write except, without"},
	{"look at", regexp.MustCompile(`\blook(s|ed)? at\b`), nil, "write reads, checks, examines"},
}

// place is a folder or a line with the number of times that it has a habit.
type place struct {
	name  string
	times int
}

// TestHabitsAreRare counts the habits in the text that TestPlainEnglish reads. `make prose` prints
// the table.
func TestHabitsAreRare(t *testing.T) {
	t.Parallel()
	words := 0
	folders, lines := make([]map[string]int, len(habits)), make([]map[string]int, len(habits))
	for i := range habits {
		folders[i], lines[i] = map[string]int{}, map[string]int{}
	}
	for _, file := range texts(t) {
		for number, line := range readLines(t, file) {
			text, isText := prose(file, line)
			if !isText {
				continue
			}
			words += len(strings.Fields(text))
			for i, habit := range habits {
				for _, at := range habit.pattern.FindAllStringIndex(text, -1) {
					if habit.except == nil || !habit.except.MatchString(text[at[0]:]) {
						folders[i][path.Dir(file)]++
						lines[i][fmt.Sprintf("%s:%d", file, number+1)]++
					}
				}
			}
		}
	}
	for i, habit := range habits {
		most, count := sorted(folders[i])
		rate := float64(count) * 10_000 / float64(words)
		t.Logf("%-25s %4d times, %4.1f in 10,000 words; most in %v", habit.name, count, rate, most[:min(5, len(most))])
		if rate > maxHabit {
			worst, _ := sorted(lines[i])
			t.Errorf("%s: %.2f in 10,000 words, want at most %.1f: %s; such as in %v",
				habit.name, rate, maxHabit, habit.instead, worst[:min(10, len(worst))])
		}
	}
	t.Logf("in %d words", words)
}

// sorted returns the places, those with the most first, and the sum.
func sorted(times map[string]int) (places []place, sum int) {
	for name, n := range times {
		places, sum = append(places, place{name, n}), sum+n
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(b.times, a.times), cmp.Compare(a.name, b.name))
	})
	return places, sum
}

var (
	// speaking are calls whose literals people read: errors, help of flags, descriptions of metrics.
	speaking = regexp.MustCompile(`^(errors\.New|fmt\.Errorf|(connect|fielderr|reason|rpcerr)\.[A-Z][A-Za-z]*` +
		`|(s|set|flags|fs|cmd)\.(String|Choice|Duration|Bool|Int|Size|Strings|Allow|Secret|Secrets|Env|Group)(Slice|Array)?(Var)?P?` +
		`|metric\.WithDescription)$`)
	// speakingFields are fields of cobra's commands that people read.
	speakingFields = map[string]bool{"Short": true, "Long": true}
)

// TestPlainEnglishOfPrograms looks for the habits that are refused in the texts of errors, flags,
// metrics and commands.
func TestPlainEnglishOfPrograms(t *testing.T) {
	t.Parallel()
	read := 0
	for _, file := range filter(texts(t), ".go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, filepath.Join("..", "..", file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, literal := range spoken(parsed) {
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			read++
			for _, word := range plainWords {
				at := word.pattern.FindStringIndex(text)
				if at == nil || word.except != nil && word.except.MatchString(text[at[0]:]) {
					continue
				}
				t.Errorf("%s:%d: %q: %s", file, set.Position(literal.Pos()).Line, text[at[0]:at[1]], word.instead)
			}
		}
	}
	if read < 1000 {
		t.Errorf("read %d texts: the calls are not found any more", read)
	}
}

// spoken returns the literals of a file that people read.
func spoken(file *ast.File) (literals []*ast.BasicLit) {
	collect := func(node ast.Node) {
		ast.Inspect(node, func(node ast.Node) bool {
			if literal, is := node.(*ast.BasicLit); is && literal.Kind == token.STRING {
				literals = append(literals, literal)
			}
			_, isFunction := node.(*ast.FuncLit)
			return !isFunction
		})
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.CallExpr:
			called, isMethod := node.Fun.(*ast.SelectorExpr)
			if !isMethod {
				return true
			}
			if on, isName := called.X.(*ast.Ident); isName && speaking.MatchString(on.Name+"."+called.Sel.Name) {
				for _, argument := range node.Args {
					collect(argument)
				}
				return false
			}
		case *ast.KeyValueExpr:
			if key, isName := node.Key.(*ast.Ident); isName && speakingFields[key.Name] {
				collect(node.Value)
				return false
			}
		}
		return true
	})
	return literals
}
