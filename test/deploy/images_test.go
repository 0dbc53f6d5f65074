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
			case image.IsOwn():
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
	dockerfile, err := os.ReadFile(filepath.Join(top, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	stages := regexp.MustCompile(`(?m)^FROM (\S+)( AS \S+)?$`).FindAllStringSubmatchIndex(string(dockerfile), -1)
	last := string(dockerfile)[stages[len(stages)-1][0]:]
	if !strings.HasPrefix(last, "FROM scratch\n") || !strings.Contains(last, "USER 65532:65532") || strings.Contains(last, "RUN ") || strings.Contains(last, "git") {
		t.Errorf("the image is made by\n%s\nwant only the program, for a user other than root", last)
	}
}
