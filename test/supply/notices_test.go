// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package supply_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/test/supply"
)

// mit returns the text of the MIT licence, with the name of its holder.
func mit(holder string) string {
	return "MIT License\n\nCopyright (c) 2020 " + holder + `

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
`
}

// notEvil is the MIT licence with a condition, so it is another licence.
var notEvil = strings.Replace(mit("Library"), "THE SOFTWARE IS", "The Software shall be used for Good, not Evil.\n\nTHE SOFTWARE IS", 1)

// gpl is the beginning of a licence that asks for the source of the whole program.
const gpl = `Copyright (C) 2020 Someone

This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public
License as published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version.
`

// apache returns the text of the licence that Leat itself has.
func apache(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// borrowed returns a checkout with a program that links a module, one of the folders in it, and on
// Windows another module. Its web UI needs two packages. changes replace the content of files; an
// empty one removes its file.
func borrowed(t *testing.T, changes map[string]string) string {
	t.Helper()
	lib, windows := "module example.com/lib\n\ngo 1.26\n", "module example.com/windows\n\ngo 1.26\n"
	files := map[string]string{
		"LICENSE": apache(t),
		"go.mod": `module github.com/leatdev/leat/cli

go 1.26

require (
	example.com/lib v1.0.0
	example.com/windows v1.0.0
)

replace (
	example.com/lib => ./lib
	example.com/windows => ./windows
)
`,
		"main.go":               "package main\n\nimport _ \"example.com/lib/deep/used\"\n\nfunc main() {}\n",
		"main_windows.go":       "package main\n\nimport _ \"example.com/windows\"\n",
		"lib/go.mod":            lib,
		"lib/LICENSE":           mit("Library"),
		"lib/NOTICE":            "a notice of the library\n",
		"lib/license_test.go":   "package lib\n",
		"lib/deep/LICENSE.txt":  strings.ReplaceAll(mit("Deep"), "\n", "  \r\n"),
		"lib/deep/used/used.go": "package used\n",
		"lib/unused/unused.go":  "package unused\n",
		"lib/unused/LICENSE":    gpl,
		"windows/go.mod":        windows,
		"windows/COPYING":       mit("Library"),
		"windows/windows.go":    "package windows\n",
		"web/package-lock.json": `{"packages": {
			"": {"dependencies": {"apache": "1", "mit": "1"}},
			"node_modules/apache/node_modules/mit": {"version": "0.9.0", "license": "MIT", "integrity": "sha512-YQ=="},
			"node_modules/apache": {"version": "1.0.0", "dependencies": {"mit": "0"}, "license": "Apache-2.0", "integrity": "sha512-YQ=="},
			"node_modules/mit": {"version": "1.0.0", "license": "MIT", "integrity": "sha512-YQ=="}
		}}`,
		"web/node_modules/apache/package.json": "{}",
		"web/node_modules/mit/LICENSE":         mit("Package"),

		"web/node_modules/apache/node_modules/mit/LICENSE": mit("Package, years ago"),
	}
	for name, content := range changes {
		files[name] = content
	}
	root := t.TempDir()
	for name, content := range files {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if content == "" {
			continue
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func writeNotices(t *testing.T, root string, platforms ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := supply.WriteNotices(t.Context(), &out, supply.NoticeParams{Root: root, Packages: []string{"."}, Platforms: platforms})
	return out.String(), err
}

// TestNoticesHaveTheLicenceOfEachPart requires the texts of what is linked on one of the platforms,
// and of nothing else, and each text once.
func TestNoticesHaveTheLicenceOfEachPart(t *testing.T) {
	t.Setenv("GOWORK", "off")
	got, err := writeNotices(t, borrowed(t, nil), "linux/amd64", "windows/arm64")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(got, "\n"+strings.Repeat("=", 80)+"\n")
	texts := map[string]string{}
	for _, block := range blocks[1:] {
		names, text, _ := strings.Cut(block, "\n"+strings.Repeat("-", 80)+"\n\n")
		texts[names] += text
	}
	standard := "the Go standard library"
	if !strings.Contains(texts[standard], "The Go Authors") || strings.Contains(texts[standard], "\r") {
		t.Errorf("the standard library has the text %q, want its licence", texts[standard])
	}
	delete(texts, standard)
	want := map[string]string{
		"example.com/lib\nexample.com/windows": mit("Library"),
		"example.com/lib":                      "a notice of the library\n",
		"example.com/lib/deep":                 mit("Deep"),
		"npm: apache":                          strings.TrimLeft(apache(t), "\n"),
		"npm: mit":                             mit("Package, years ago") + mit("Package"),
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("texts by what has them (-want +got):\n%s", diff)
	}

	var web strings.Builder
	if err := supply.WriteWebNotices(&web, borrowed(t, nil)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"npm: apache\n", "npm: mit\n"} {
		if !strings.Contains(web.String(), name) {
			t.Errorf("the notices of the web UI lack %q:\n%s", name, web.String())
		}
	}
	if strings.Contains(web.String(), "example.com") || strings.Contains(web.String(), standard) {
		t.Errorf("the notices of the web UI have Go modules:\n%s", web.String())
	}

	linux, err := writeNotices(t, borrowed(t, nil), "linux/amd64")
	if err != nil || strings.Contains(linux, "example.com/windows") {
		t.Errorf("got %v, and the notices name what only Windows links: %t", err, strings.Contains(linux, "example.com/windows"))
	}
}

// TestLicencesThatAreNotAcceptedAreRefused requires an error that names what may not be in a program.
func TestLicencesThatAreNotAcceptedAreRefused(t *testing.T) {
	t.Setenv("GOWORK", "off")
	for name, test := range map[string]struct {
		changes map[string]string
		want    string
	}{
		"another licence in a module":      {map[string]string{"lib/LICENSE": gpl}, "example.com/lib/LICENSE: its licence is not known"},
		"another licence in a folder":      {map[string]string{"lib/deep/used/COPYING": gpl}, "example.com/lib/deep/used/COPYING: its licence is not known"},
		"a module without a licence":       {map[string]string{"lib/LICENSE": ""}, "example.com/lib: it has no licence"},
		"a package without a licence":      {map[string]string{"web/node_modules/mit/LICENSE": ""}, "npm: mit: it has no licence"},
		"another licence in a package":     {map[string]string{"web/node_modules/mit/LICENSE": gpl}, "npm: mit/LICENSE: its licence is not known"},
		"a licence that restricts the use": {map[string]string{"lib/LICENSE": notEvil}, "example.com/lib/LICENSE: the licence JSON is not accepted"},
		"words that are no licence at all": {map[string]string{"lib/LICENSE": "All rights reserved.\n"}, "example.com/lib/LICENSE: its licence is not known"},
	} {
		if _, err := writeNotices(t, borrowed(t, test.changes), "linux/amd64"); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// TestEachProgramHasItsNotices reads the file of the tree. .ci/run writes it again, and compares.
func TestEachProgramHasItsNotices(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("../..", supply.NoticesFile))
	if err != nil {
		t.Fatal(err)
	}
	modules, err := supply.Modules(t.Context(), "../..", supply.Programs()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		if m.Path != "stdlib" && !strings.Contains(string(text), "\n"+m.Path+"\n") {
			t.Errorf("%s has no notices of %s: run make generate", supply.NoticesFile, m.Path)
		}
	}
}
