// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package rendertest tests implementations of render.StepRenderer: by the port's contract, and
// beside the program that a language comes with.
package rendertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/render"
)

// Conform tests what render.StepRenderer promises of every implementation. The renderer makes
// documents or files of the input.
func Conform(t *testing.T, renderer render.StepRenderer, in render.StepInput) {
	t.Helper()
	want, err := renderer.RenderStep(t.Context(), in)
	if err != nil {
		t.Fatalf("render: %v", err)
	}
	if len(want.Documents) == 0 && len(want.Files) == 0 {
		t.Fatal("the input makes nothing, so it tests nothing")
	}
	t.Run("equal inputs have equal outputs, also at once, and stay as they are", func(t *testing.T) {
		before := encoded(t, in.Files)
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				got, err := renderer.RenderStep(t.Context(), in)
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					t.Errorf("another render: %v (-first +this):\n%s", err, diff)
				}
			})
		}
		wait.Wait()
		if !bytes.Equal(before, encoded(t, in.Files)) {
			t.Error("rendering changed the files")
		}
	})
	t.Run("a context that ended", func(t *testing.T) {
		cause := errors.New("the service was deleted")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if _, err := renderer.RenderStep(ctx, in); !errors.Is(err, cause) {
			t.Errorf("got %v, want the context's cause", err)
		}
	})
	t.Run("no configuration, no facts", func(t *testing.T) {
		bare := in
		bare.Variables, bare.Facts = nil, render.Facts{}
		_, err := renderer.RenderStep(t.Context(), bare)
		problem, limit := new(render.Error), new(render.LimitError)
		if err != nil && !errors.As(err, &problem) && !errors.As(err, &limit) {
			t.Errorf("got %v, want success or an error about the content", err)
		}
	})
}

func encoded(t *testing.T, files *render.Files) []byte {
	t.Helper()
	var text bytes.Buffer
	if err := files.Encode(&text); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// Files returns the files of a map from path to content.
func Files(content map[string]string) *render.Files {
	all := make(map[string][]byte, len(content))
	for name, text := range content {
		all[name] = []byte(text)
	}
	return render.NewFiles(all)
}

// Text joins the texts of documents.
func Text(documents []render.Document) string {
	var all strings.Builder
	for _, document := range documents {
		all.Write(document.Text)
	}
	return all.String()
}

// Write writes files to a folder of the test, and returns it.
func Write(t testing.TB, files *render.Files) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range files.Below("") {
		content, _ := files.Get(name)
		place := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(place, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// Original returns the path of a program that tools/renderers pins: jsonnet or cue. The first test
// that needs it builds it.
func Original(t testing.TB, name string) string {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(root(t), "tools", "renderers", "build.sh"), name)
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, log.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// Module returns the folder of a module that Leat links, in the version that it links. The folder is
// read-only.
func Module(t testing.TB, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", name).Output()
	folder := strings.TrimSpace(string(out))
	if err != nil || folder == "" {
		t.Fatalf("find the module %s: got %q, %v", name, folder, err)
	}
	return folder
}

// ReadFolder returns the regular files below a folder of the disk, by their slash-separated path.
func ReadFolder(t testing.TB, folder string) map[string][]byte {
	t.Helper()
	content := map[string][]byte{}
	files := os.DirFS(folder)
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			content[name], err = fs.ReadFile(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// Run runs a program in a folder, and returns its standard output. The error has its standard error.
func Run(t testing.TB, folder, program string, args ...string) ([]byte, error) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Stderr = folder, &log
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, log.Bytes())
	}
	return out, err
}

// Example returns the files of the example under a heading of docs/guides/renderers.md, and its
// output: the blocks of code whose first line names a file, and the block that is called output.
func Example(t testing.TB, heading string) (files map[string]string, output string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root(t), "docs", "guides", "renderers.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/guides/renderers.md has no heading %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	files = map[string]string{}
	for i, block := range strings.Split(section, "\n```") {
		if i%2 == 0 {
			continue // the text between two blocks
		}
		title, text, _ := strings.Cut(block, "\n")
		_, name, named := strings.Cut(title, " ")
		switch {
		case named && name == "output":
			output = text + "\n"
		case named:
			files[name] = text + "\n"
		}
	}
	return files, output
}

// root returns the top folder of the checkout.
func root(t testing.TB) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOWORK").Output()
	if err != nil {
		t.Fatalf("find the checkout: %v", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
}
