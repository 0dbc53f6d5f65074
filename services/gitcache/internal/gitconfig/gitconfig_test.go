// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitconfig_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/gitcache/internal/gitconfig"
)

// texts are files with everything that the syntax knows.
var texts = []string{
	"[submodule \"lib/one\"]\n\tpath = lib/one\n\turl = ../one.git\n",
	"\ufeff; first\n[a]\nb\n[A \"X y\"] c=1 # tail\n\td = \"two words\"  ; tail\n",
	"[s \"with \\\" and \\\\\"]\n key-2 = a\\tb\\\\c\\\"d\n",
	"[s.Old]\nkey = goes \\\n  on\n",
	"[s]\nk = \"a # b\" c ; d\nk=\nk   =   spaced   out   \n",
	"[s]\r\nk = v\r\n",
	"[lfs]\n\turl = https://git.example.com/x.git/info/lfs",
}

// TestEqualsGit compares with what git itself reads.
func TestEqualsGit(t *testing.T) {
	t.Parallel()
	for _, text := range texts {
		got, err := gitconfig.Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var ours []string
		for _, s := range got {
			name := s.Section + "." + s.Key
			if s.Subsection != "" {
				name = s.Section + "." + s.Subsection + "." + s.Key
			}
			ours = append(ours, name+"\n"+s.Value)
		}
		if diff := cmp.Diff(git(t, text), ours); diff != "" {
			t.Errorf("%q (-git +got):\n%s", text, diff)
		}
	}
}

// git returns name and value of every setting as git reads the file; a name alone is given the
// value that it means.
func git(t *testing.T, text string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "git", "config", "--file", path, "--list", "--null").Output()
	if err != nil {
		t.Fatalf("%q: git does not read it either: %v", text, err)
	}
	var settings []string
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if !strings.Contains(line, "\n") {
			line += "\ntrue"
		}
		settings = append(settings, line)
	}
	return settings
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"k = v", "[", "[]", "[s", "[s \"x]\nk=v", "[s]\n= v", "[s]\n1k = v", "[s]\nk v", "[s]\nk = \"v", "[s]\nk = \\q", "[s]\nk = v\\",
	} {
		if got, err := gitconfig.Parse(text); !errors.Is(err, gitconfig.ErrSyntax) {
			t.Errorf("%q: got %v, %v, want ErrSyntax", text, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		settings, err := gitconfig.Parse(text)
		if err != nil && !errors.Is(err, gitconfig.ErrSyntax) {
			t.Errorf("got %v, want ErrSyntax", err)
		}
		for _, s := range settings {
			if s.Section == "" || s.Key == "" {
				t.Errorf("got %+v from %q, want names", s, text)
			}
		}
	})
}
