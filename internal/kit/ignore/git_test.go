// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ignore_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/kit/ignore"
)

// ruleFile is the name of ignore files in these tests.
const ruleFile = ".leatignore"

// forest holds folders with files, each of which is one case: a file's content by its path.
type forest map[string]map[string]string

// write writes all cases below dir, which git regards as a work tree.
func (f forest) write(t testing.TB, dir string) {
	t.Helper()
	for name, files := range f {
		for file, text := range files {
			path := filepath.Join(dir, name, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// git runs the git command in dir, without any user's settings.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", args...)
	command.Dir = dir
	command.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1"}
	out, err := command.Output()
	if err != nil {
		t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// workTree returns an empty work tree.
func workTree(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "init", "-q", "--template=")
	return dir
}

// byGit returns the files that the git command does not ignore, by case.
func byGit(t testing.TB, dir string) map[string][]string {
	t.Helper()
	kept := map[string][]string{}
	for path := range strings.SplitSeq(git(t, dir, "ls-files", "-o", "-z", "--exclude-per-directory="+ruleFile), "\x00") {
		if name, file, ok := strings.Cut(path, "/"); ok {
			kept[name] = append(kept[name], file)
		}
	}
	return kept
}

// byRules returns the files that the package does not ignore, walking downwards as it requires.
func byRules(files map[string]string) []string {
	var kept []string
	for path := range files {
		var chain *ignore.Chain
		ignored := false
		for i, b := range []byte(path) {
			if b != '/' && i > 0 {
				continue
			}
			folder := path[:i]
			if ignored = ignored || folder != "" && chain.Ignores(folder, true); ignored {
				break
			}
			if text, ok := files[strings.TrimPrefix(folder+"/"+ruleFile, "/")]; ok {
				chain = chain.With(folder, ignore.Parse([]byte(text)))
			}
		}
		if !ignored && !chain.Ignores(path, false) {
			kept = append(kept, path)
		}
	}
	return kept
}

// wantGit compares the package with the git command, in an empty work tree.
func wantGit(t *testing.T, dir string, f forest) {
	t.Helper()
	f.write(t, dir)
	kept := byGit(t, dir)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		got, want := byRules(f[name]), kept[name]
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("rules %q: files kept (-git +ours):\n%s", rules(f[name]), diff)
		}
	}
}

func rules(files map[string]string) map[string]string {
	found := map[string]string{}
	for path, text := range files {
		if filepath.Base(path) == ruleFile {
			found[path] = text
		}
	}
	return found
}

// tree is a set of empty files, with rules in its root.
func tree(rules string, paths ...string) map[string]string {
	files := map[string]string{ruleFile: rules}
	for _, path := range paths {
		files[path] = ""
	}
	return files
}

func TestGitAgreesOnWhatTheManualSays(t *testing.T) {
	t.Parallel()
	paths := []string{
		"a", "b", "a b", "a ", " a", "#a", "!a", `a\`, "a.md", "A.MD", "doc/a.md", "doc/x/a.md", "doc/x/y/b", "x/doc/a", "x/y/doc/z/a.md",
		"foo", "foox/bar", "foo1/bar", "foox/y/bar", "foobar", "a[1]", "a1", "a-", "a]", "é.md", "x/é", ".hidden", "x/.hidden", "build/out", "x/build",
		"deep/1/2/3/4/5/a", "a^", "a\tb", "\ttab", "cr\r", "nl\n", "*", "**", "a/b/c"[:0] + "q/b/c", "?",
	}
	f := forest{}
	for i, text := range []string{
		"", "\n\n", "a", "a\n", "/a", "a/", "doc/", "doc/\n!doc/a.md", "doc/*\n!doc/a.md", "*.md", "*.md\n!doc/*.md", "/*.md", "doc/*.md",
		"doc/**/a.md", "**/a.md", "doc/**", "**/doc/**", "**", "*", "*\n!a", "*\n!*/\n!*.md", "**/", "***", "a**", "doc/***/a.md", "x/**/z/**",
		"#a", `\#a`, `\!a`, "!a", "!", "/", "//", "\\", `a\`, `a\\`, "a b", "a ", `a\ `, `a\  `, " a", "a \t", "a\\\\ ", "a\r", "a\r\n", "\r\n", "cr\\\r\n", "cr\r\r\n",
		"\ufeffa", "a\x00b", "a\n\x00", "[ab]", "[!ab]", "[^ab]", "[a-c].md", "a[[]1]", "a[1", "a[]]", "a[!]]", "[[:alpha:]]", "[[:bogus:]]", "[[:alpha:]",
		"a[[:digit:]-]", "[\\!]a", "[a\\-z]", "[z-a]", "[]-a]", "doc[/]a.md", "doc?a.md", "doc\\/a.md", "foo**/bar", "/foo**", "/foo**/bar", "foo*/bar", "/foo?/bar",
		"*a*", "?", "??", "\\*", "\\*\\*", "é*", "?.md", "[é].md", "**/é", "x/", "x/*/", "x/*/z", "deep/**/5", "deep/**/5/a", "deep/*/2/**", "**/3/**/a", "build", "build/", "/x/build/",
		".*", ".*\n!" + ruleFile, "/.hidden", "a^", "[a^]", "nl*", "\\a", "do\\c/", "doc/x\n!doc/x/a.md", "/doc/x/*\n!/doc/x/y\n/doc/x/y/*\n!/doc/x/y/b", "**\\/a.md", "x/**\\/a.md",
	} {
		f[fmt.Sprintf("case%03d", i)] = tree(text, paths...)
	}
	f["nested"] = map[string]string{
		ruleFile: "*.tmp\n/top\nsub/kept.tmp\n", "a.tmp": "", "top": "", "sub/top": "", "sub/a.tmp": "", "sub/kept.tmp": "", "sub/deeper/b.tmp": "", "sub/deeper/top": "",
		"sub/" + ruleFile: "!*.tmp\n/deeper/top\n", "sub/deeper/" + ruleFile: "b.tmp\n!top\n",
	}
	f["nested in ignored"] = map[string]string{
		ruleFile: "out/\n", "out/a": "", "out/" + ruleFile: "!a\n", "in/out": "", "in/" + ruleFile: "!out\n", "in/x/out/a": "",
	}
	wantGit(t, workTree(t), f)
}

// TestGitAgreesOnEveryByte tries all classes on names of every byte.
func TestGitAgreesOnEveryByte(t *testing.T) {
	t.Parallel()
	var names []string
	for b := 1; b < 256; b++ {
		if b != '/' && b != '.' {
			names = append(names, "_"+string([]byte{byte(b)}))
		}
	}
	f := forest{}
	for i, class := range []string{
		"alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "xdigit", "word", "", "ALPHA",
	} {
		f[fmt.Sprintf("class%02d", i)] = tree("_[[:"+class+":]]", names...)
		f[fmt.Sprintf("other%02d", i)] = tree("_[^x[:"+class+":]-a]", names...)
	}
	for i, text := range []string{"_?", "_[!-~]", "_[\\]-a]", "_[a-\\]]", "_[\xc3\xa9]", "_[\x80-\xff]", "_[%--]", "_[--0]", "_[-a]", "_[a-]", "_[[-a]", "_[[:]", "_[[:x]", "_[a[:x:]"} {
		f[fmt.Sprintf("set%02d", i)] = tree(text, names...)
	}
	wantGit(t, workTree(t), f)
}

// TestGitAgreesOnAnything tries random rules on random trees.
func TestGitAgreesOnAnything(t *testing.T) {
	t.Parallel()
	const cases = 200
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	f := forest{}
	for i := range cases {
		f[fmt.Sprintf("case%04d", i)] = randomTree(random)
	}
	t.Logf("seed %d", seed)
	wantGit(t, workTree(t), f)
}

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

func randomTree(r *rand.Rand) map[string]string {
	files, folders := map[string]string{}, map[string]bool{"": true}
	for range 4 + r.IntN(25) {
		var path string
		for range r.IntN(4) {
			path += randomName(r) + "/"
			if _, taken := files[strings.TrimSuffix(path, "/")]; taken {
				break
			}
			folders[path] = true
		}
		if name := path + randomName(r); !folders[name+"/"] {
			files[name] = ""
		}
	}
	for path := range files { // no file may be where a folder has to be
		for i := range path {
			if path[i] == '/' {
				delete(files, path[:i])
			}
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		if _, taken := files[strings.TrimSuffix(folder, "/")]; !taken && (folder == "" || r.IntN(4) == 0) {
			files[folder+ruleFile] = randomRules(r)
		}
	}
	return files
}

func randomName(r *rand.Rand) string {
	name := pick(r, "a", "b", "c", "ab", "ba", "foo", "x", "-")
	if r.IntN(3) == 0 {
		name += pick(r, "a", "b", ".a", "]", "[", " ", "\\", "!", "^", "*", "é", "1")
	}
	return name
}

func randomRules(r *rand.Rand) string {
	var text strings.Builder
	for range 1 + r.IntN(4) {
		text.WriteString(pick(r, "", "", "", "!", "/", "!/", "**/", "!**/", "\\", "#"))
		for range 1 + r.IntN(5) {
			text.WriteString(pick(r, "a", "b", "c", "ab", "foo", "x", "1", "*", "*", "**", "**", "?", "/", "/", "/**/", "**/", "/**", "[ab]", "[!a]", "[^b-z]",
				"[[:alpha:]]", "[]a]", "[a", "]", "\\", "\\a", "\\*", "\\ ", " ", "-", "!", "é", "\\/", "*/", "***"))
		}
		text.WriteString(pick(r, "", "", "", "/", " ", "\\ ", "\r"))
		text.WriteString("\n")
	}
	return text.String()
}
