// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/test/supply"
)

// TestSecImages checks the form of every image reference, and that Leat's own image contains only
// the program.
func TestSecImages(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(top, "deploy", "kubernetes", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values, err := filepath.Glob(filepath.Join(top, "deploy", "helm", "*", "values.yaml"))
	if err != nil || len(values) == 0 {
		t.Fatalf("find values of charts: %v, %v", values, err)
	}
	for _, file := range append(slices.Concat(files, values), filepath.Join(top, "docker-compose.yml"), filepath.Join(top, "Dockerfile")) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range supply.Images(string(content)) {
			image, err := supply.ParseImage(text)
			switch {
			case err != nil:
				t.Errorf("%s: %v", file, err)
			case own(t).Has(image):
			case image.Tag == "" || image.Tag == "latest":
				t.Errorf("%s: %s names no version", file, text)
			}
		}
		for _, digest := range regexp.MustCompile(`@sha256:\S*`).FindAllString(string(content), -1) {
			if !regexp.MustCompile(`^@sha256:[0-9a-f]{64}["']?$`).MatchString(digest) {
				t.Errorf("%s: %s is not a digest", file, digest)
			}
		}
	}
	stages := stagesOf(t)
	last := stages[""]
	if !strings.HasPrefix(last, "FROM scratch\n") || !strings.Contains(last, "USER 65532:65532") || strings.Contains(last, "RUN ") || strings.Contains(last, "--from=git") {
		t.Errorf("the image is made by\n%s\nwant only the program, for a user other than root", last)
	}
}

// own returns how the images of this checkout are named.
func own(t *testing.T) supply.Own {
	t.Helper()
	o, err := supply.ReadOwn(top)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// stagesOf returns the stages of the Dockerfile by their names. The last one has none.
func stagesOf(t *testing.T) map[string]string {
	t.Helper()
	dockerfile := string(read(t, top, "Dockerfile"))
	from := regexp.MustCompile(`(?m)^FROM \S+(?: AS (\S+))?$`)
	stages := map[string]string{}
	found := from.FindAllStringSubmatchIndex(dockerfile, -1)
	for i, at := range found {
		end := len(dockerfile)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		name := ""
		if at[2] >= 0 {
			name = dockerfile[at[2]:at[3]]
		}
		stages[name] = dockerfile[at[0]:end]
	}
	return stages
}

// TestDockerfileNeedsNothingElse requires that a build obtains nothing that is not pinned, works
// behind a module proxy of one's own, and that images are labelled.
func TestDockerfileNeedsNothingElse(t *testing.T) {
	t.Parallel()
	dockerfile := string(read(t, top, "Dockerfile"))
	if strings.Contains(dockerfile, "syntax=") {
		t.Error("the Dockerfile names a builder, which engines download and run, and which `make pin` does not pin")
	}
	if regexp.MustCompile(`(?m)^VOLUME`).MatchString(dockerfile) {
		t.Error("an image declares a volume: containers without a named one leave theirs behind")
	}
	stages := stagesOf(t)
	for _, arg := range []string{"ARG GOPROXY\n", "ARG GOFLAGS\n"} {
		if !strings.Contains(stages["go"], arg) {
			t.Errorf("the stage that downloads modules has no %q", strings.TrimSpace(arg))
		}
	}
	for _, name := range []string{"", "git", "cli", "demo-git"} {
		for _, label := range []string{"title", "description", "source", "licenses", "vendor", "version", "revision"} {
			if !strings.Contains(stages[name], "org.opencontainers.image."+label+"=") {
				t.Errorf("stage %q: no label %s", name, label)
			}
		}
		if hasCheck := strings.Contains(stages[name], `CMD ["/usr/local/bin/leat-service", "health"]`); hasCheck != (name == "" || name == "git") {
			t.Errorf("stage %q: got a health check: %t", name, hasCheck)
		}
	}
}
