// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package supply_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/test/supply"
)

// uiInventory holds the fields that the tests read of an inventory.
type uiInventory struct {
	Components []struct {
		Name, Version, PURL string
		Hashes              []struct{ Alg, Content string }
		Licenses            []struct {
			Expression string
			License    struct{ ID string }
		}
	}
	Dependencies []struct{ DependsOn []string }
}

// webCheckout returns the root of a checkout with a lock file, whose web UI is built or not.
func webCheckout(t *testing.T, lock string, isBuilt bool) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{"web/package-lock.json": lock}
	if isBuilt {
		files["services/distributor/internal/ui/dist/index.html"] = "<!doctype html>"
	}
	for name, content := range files {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// compileModule compiles a program of a module with that path, which has nothing else in it.
func compileModule(t *testing.T, module string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"go.mod": "module " + module + "\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "program")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", file, ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

// npmOf writes the inventory of a program, and returns the npm packages in it, one a line.
func npmOf(t *testing.T, program string, ui supply.WebUI) []string {
	t.Helper()
	var out bytes.Buffer
	if err := supply.WriteSBOM(&out, program, "1.2.3", ui); err != nil {
		t.Fatal(err)
	}
	var document uiInventory
	if err := json.Unmarshal(out.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, c := range document.Components {
		if !strings.HasPrefix(c.PURL, "pkg:npm/") {
			continue
		}
		if len(c.Hashes) != 1 || len(c.Licenses) != 1 || !slices.Contains(document.Dependencies[0].DependsOn, c.PURL) {
			t.Fatalf("got %+v, want one hash, one licence, and the program to depend on it", c)
		}
		sum, licence := c.Hashes[0], c.Licenses[0]
		lines = append(lines, strings.Join([]string{c.Name, c.Version, c.PURL, sum.Alg, sum.Content, licence.Expression + licence.License.ID}, " "))
	}
	return lines
}

// TestInventoryOfTheWebUI writes inventories of programs with and without the web UI, of a lock file
// with tools, nested packages and aliases.
func TestInventoryOfTheWebUI(t *testing.T) {
	t.Parallel()
	const lock = `{"packages": {
		"": {"dependencies": {"@team/a": "1", "alias": "1"}, "devDependencies": {"tool": "1"}, "optionalDependencies": {"machine": "1"}},
		"node_modules/@team/a": {"version": "1.0.0", "integrity": "sha512-AQ==", "license": "(MIT AND BSD-3-Clause)",
			"dependencies": {"b": "2"}, "peerDependencies": {"tool": "1", "absent": "1"}, "optionalDependencies": {"fast": "1"}},
		"node_modules/@team/a/node_modules/b": {"version": "2.0.0-rc.1", "integrity": "sha512-Ag==", "license": "MIT", "dependencies": {"c": "1"}},
		"node_modules/alias": {"name": "real", "version": "5.0.0", "integrity": "sha512-Aw==", "license": "ISC", "dependencies": {"b": "1"}},
		"node_modules/b": {"version": "1.0.0", "integrity": "sha512-BA==", "license": "MIT"},
		"node_modules/c": {"version": "1.0.0", "integrity": "sha512-BQ==", "license": "0BSD", "dependencies": {"alias": "5"}},
		"node_modules/fast": {"version": "1.0.0", "integrity": "sha512-Bg==", "license": "MIT", "optional": true},
		"node_modules/machine": {"version": "1.0.0", "integrity": "sha512-Bw==", "license": "MIT", "optional": true},
		"node_modules/tool": {"version": "1.0.0", "integrity": "sha512-CA==", "license": "GPL-3.0-only", "dev": true}
	}}`
	ui, err := supply.ReadWebUI(webCheckout(t, lock, true))
	if err != nil {
		t.Fatal(err)
	}
	distributor := compileModule(t, "github.com/leatdev/leat/services/distributor")
	want := []string{
		"@team/a 1.0.0 pkg:npm/%40team/a@1.0.0 SHA-512 01 (MIT AND BSD-3-Clause)",
		"b 1.0.0 pkg:npm/b@1.0.0 SHA-512 04 MIT",
		"b 2.0.0-rc.1 pkg:npm/b@2.0.0-rc.1 SHA-512 02 MIT",
		"c 1.0.0 pkg:npm/c@1.0.0 SHA-512 05 0BSD",
		"fast 1.0.0 pkg:npm/fast@1.0.0 SHA-512 06 MIT",
		"real 5.0.0 pkg:npm/real@5.0.0 SHA-512 03 ISC",
	}
	if diff := cmp.Diff(want, npmOf(t, distributor, ui)); diff != "" {
		t.Errorf("with the UI (-want +got):\n%s", diff)
	}
	if got := npmOf(t, compileModule(t, "github.com/leatdev/leat/services/tunnel"), ui); len(got) > 0 {
		t.Errorf("got %q in a program without the distributor", got)
	}
	unbuilt, err := supply.ReadWebUI(webCheckout(t, lock, false))
	if err != nil {
		t.Fatal(err)
	}
	if got := npmOf(t, distributor, unbuilt); len(got) > 0 {
		t.Errorf("got %q in a program that was compiled without the UI", got)
	}
	var image bytes.Buffer
	err = supply.WriteImageSBOM(&image, supply.ImageContent{
		Name: "registry.example.com/team/distributor", Version: "1.2.3", Digest: strings.Repeat("0", 64), WebUI: ui,
		Programs: []supply.ImageProgram{{Platform: "linux/amd64", Path: "/distributor", File: distributor}, {Platform: "linux/arm64", Path: "/distributor", File: distributor}},
	})
	if got := strings.Count(image.String(), `"purl": "pkg:npm/`); err != nil || got != len(want) {
		t.Errorf("got %d packages in the image, %v, want %d", got, err, len(want))
	}
}

func TestLockFilesThatAreNotWhole(t *testing.T) {
	t.Parallel()
	const project = `"": {"dependencies": {"a": "1"}}`
	for name, lock := range map[string]string{
		"no JSON":           `{`,
		"a package missing": `{"packages": {` + project + `}}`,
		"no checksum":       `{"packages": {` + project + `, "node_modules/a": {"version": "1.0.0", "license": "MIT"}}}`,
		"another checksum":  `{"packages": {` + project + `, "node_modules/a": {"version": "1.0.0", "license": "MIT", "integrity": "sha1-AQ=="}}}`,
		"no licence":        `{"packages": {` + project + `, "node_modules/a": {"version": "1.0.0", "integrity": "sha512-AQ=="}}}`,
	} {
		if _, err := supply.ReadWebUI(webCheckout(t, lock, true)); err == nil || !strings.Contains(err.Error(), "package-lock.json") {
			t.Errorf("%s: got %v, want an error that names the file", name, err)
		}
	}
}

// TestInventoryHasAllOfTheWebUI compares the inventory with what npm itself marks in the tree's own lock
// file as not needed by tools alone.
func TestInventoryHasAllOfTheWebUI(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../web/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct {
			Version, License, Integrity string
			Dev, Optional               bool
		}
	}
	if err := json.Unmarshal(content, &lock); err != nil {
		t.Fatal(err)
	}
	var want []string
	for folder, p := range lock.Packages {
		if folder == "" || p.Dev || p.Optional {
			continue
		}
		name := folder[strings.LastIndex(folder, "node_modules/")+len("node_modules/"):]
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(p.Integrity, "sha512-"))
		if err != nil || len(sum) != 64 {
			t.Fatalf("%s: got the checksum %q, %v", folder, p.Integrity, err)
		}
		purl := "pkg:npm/" + strings.Replace(name, "@", "%40", 1) + "@" + p.Version
		want = append(want, strings.Join([]string{name, p.Version, purl, "SHA-512", hex.EncodeToString(sum), p.License}, " "))
	}
	slices.Sort(want)
	ui, err := supply.ReadWebUI(webCheckout(t, string(content), true))
	if err != nil {
		t.Fatal(err)
	}
	got := npmOf(t, compileModule(t, "github.com/leatdev/leat/services/distributor"), ui)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(got) < 20 {
		t.Errorf("%d packages (-want +got):\n%s", len(got), diff)
	}
}
