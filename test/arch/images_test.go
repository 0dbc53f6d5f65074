// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/test/supply"
)

// imagePrograms are the images that the Dockerfile makes: the images of the services and the
// command line, the demo's Git host, and gitcache with git.
var imagePrograms = []string{"agent", "demo-git", "distributor", "gitcache", "gitcache-git", "leat", "tunnel"}

// imageSpellings are files that spell an image out, each in a way of its own. A test that no longer
// finds the names in them finds none.
var imageSpellings = []string{
	"Dockerfile", "cli/internal/agentmanifest/agent.yaml", "deploy/kubernetes/agent.yaml", "deploy/kubernetes/hub.yaml",
	"docker-compose.yml", "docs/operations/containers.md", "docs/operations/kubernetes.md", "docs/operations/releases.md",
}

// chartRepository is the value that the agent's chart joins with its registry. Tests of the charts and
// the rendered manifests have the whole name.
var chartRepository = regexp.MustCompile("^(  repository: leat/agent|\\| `image\\.repository` \\| `\"leat/agent\"` .*)$")

// ownImage finds what looks like an image of ours: a project of our name, in a registry or without
// one, and a program, a placeholder or a variable. A path, which continues after it or before it,
// does not.
var ownImage = regexp.MustCompile(`(?:^|://|[^\w./@-])` +
	`((?:(?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+)(?::\d+)?/(?:[a-z0-9._-]+/)*)?(?:leatdev/leat|leatdev|leat)/(?:[a-z]+(?:-[a-z]+)*|[A-Z]+|\$\{?\w+\}?))` +
	`(?::([\w$][\w.${}-]*))?(?:[^\w/-]|$)`)

// checkImages returns the images in a line that have another name than the repository's, or another
// tag, and how many have the right ones. Pages and Go may leave the tag out; pages also name a release.
func checkImages(own supply.Own, file, line string) (wrong []string, right int) {
	if chartRepository.MatchString(line) && strings.HasPrefix(file, "deploy/helm/leat-agent/") {
		return nil, 0
	}
	isPage := strings.HasSuffix(file, ".md")
	for _, m := range ownImage.FindAllStringSubmatch(line, -1) {
		name, tag := m[1], strings.TrimRight(m[2], ".")
		program, isNamed := strings.CutPrefix(name, own.Repository+"/")
		switch {
		case !isOwnImage(own, name, tag):
		case !isNamed:
			wrong = append(wrong, fmt.Sprintf("%s, want a name in %s", name, own.Repository))
		case !slices.Contains(imagePrograms, program) && (!isPage || strings.ToUpper(program) != program):
			wrong = append(wrong, fmt.Sprintf("%s, want one of %v", name, imagePrograms))
		case tag == own.Tag, tag == "" && (isPage || strings.HasSuffix(file, ".go")), isPage && slices.Contains([]string{release(own), "VERSION"}, tag):
			right++
		default:
			wrong = append(wrong, fmt.Sprintf("%s with the tag %q, want %q", name, tag, own.Tag))
		}
	}
	return wrong, right
}

// release returns the tag that the images of the version on the way will have.
func release(own supply.Own) string { return strings.TrimSuffix(own.Tag, "-dev") }

// isOwnImage reports whether a match of ownImage means an image of this repository. Others are the
// repository itself, an image in a registry that is an example, and a word that follows our name.
func isOwnImage(own supply.Own, name, tag string) bool {
	registry, _, _ := strings.Cut(name, "/")
	switch {
	case name == own.Repository, name == "leatdev/leat" && tag == "", registry == "github.com", strings.HasSuffix(registry, ".example.com"):
		return false
	case registry == "leatdev", strings.HasPrefix(own.Repository, registry+"/"):
		return true
	}
	program := name[strings.LastIndex(name, "/")+1:]
	return slices.Contains(imagePrograms, program) || strings.HasPrefix(program, "$")
}

// TestSecImagesHaveOneName reads every file for images of ours. One name leads to them in all files: a
// name in the project's own registry, because others may own one without a registry.
func TestSecImagesHaveOneName(t *testing.T) {
	t.Parallel()
	own := ownImages(t)
	found := map[string]int{}
	for _, file := range trackedFiles(t) {
		if file == "test/arch/images_test.go" || strings.HasSuffix(file, ".binpb") {
			continue
		}
		for number, line := range readLines(t, file) {
			wrong, right := checkImages(own, file, line)
			for _, image := range wrong {
				t.Errorf("%s:%d: names the image %s; see deploy/images.env", file, number+1, image)
			}
			found[file] += right
		}
	}
	for _, file := range imageSpellings {
		if found[file] == 0 {
			t.Errorf("%s: found no image of ours", file)
		}
	}
}

// TestCheckImages has lines of all kinds of files.
func TestCheckImages(t *testing.T) {
	t.Parallel()
	own := supply.Own{Repository: "ghcr.io/leatdev/leat", Tag: "1.2.3-dev"}
	for _, c := range []struct {
		file, line string
		wrong      int
		right      int
	}{
		{"x.yaml", "    image: ghcr.io/leatdev/leat/agent:1.2.3-dev", 0, 1},
		{"x.yaml", "    image: leat/agent:dev", 1, 0},
		{"x.yaml", "    image: leat/agent", 1, 0},
		{"x.yaml", `    image: "docker.io/leat/agent:1.2.3-dev"`, 1, 0},
		{"x.yaml", "    image: localhost:5000/leat/agent:1.2.3-dev", 1, 0},
		{"x.yaml", "    image: ghcr.io/leatdev/agent:1.2.3-dev", 1, 0},
		{"x.yaml", "    image: leatdev/agent:1.2.3-dev", 1, 0},
		{"x.yaml", "    image: ghcr.io/leat/agent:1.2.3-dev", 1, 0},
		{"x.yaml", "    image: ghcr.io/leatdev/leat/agents:1.2.3-dev", 1, 0},
		{"x.yaml", "    image: ghcr.io/leatdev/leat/agent", 1, 0},
		{"x.yaml", "    image: ghcr.io/leatdev/leat/agent:latest", 1, 0},
		{"x.yaml", "    image: ghcr.io/leatdev/leat/agent:1.2.3", 1, 0},
		{"x.yaml", "    image: ghcr.io/leatdev/leat/PROGRAM:1.2.3-dev", 1, 0},
		{"x.yaml", "    image: ghcr.io/stefanprodan/podinfo:6.14.1", 0, 0},
		{"x.yaml", "  repository: leat/agent", 1, 0},
		{"deploy/helm/leat-agent/values.yaml", "  repository: leat/agent", 0, 0},
		{"x.sh", "docker build -t leat/$name .", 1, 0},
		{"x.sh", `docker build --tag "leat/${name}:dev" .`, 1, 0},
		{"x.sh", "skopeo copy a docker://leat/agent:1.2.3-dev", 1, 0},
		{"x.sh", "docker build --tag=leat/agent:1.2.3-dev .", 1, 0},
		{"x.sh", "cp /etc/leat/agent $top/deploy/helm/leat/$name cli/cmd/leat/agent", 0, 0},
		{"Dockerfile", "#   docker build --target cli -t ghcr.io/leatdev/leat/leat:1.2.3-dev .    the command line", 0, 1},
		{"x.md", "They are `ghcr.io/leatdev/leat/agent` and `ghcr.io/leatdev/leat/PROGRAM:VERSION`, of a release ghcr.io/leatdev/leat/tunnel:1.2.3.", 0, 3},
		{"x.md", "It is `leat/agent`, and `leat/gitcache` is another.", 2, 0},
		{"x.md", "The image is ghcr.io/leatdev/leat/agent:dev.", 1, 0},
		{"x.md", "Push registry.example.com/leat/agent:dev, `--repo leatdev/leat`, of https://github.com/leatdev/leat.", 0, 0},
		{"x.txtar", "stdout ' image: registry.example.com/leat/agent:dev$'", 0, 0},
		{"x.go", `if want := "ghcr.io/leatdev/leat/agent:" + version; got != want {`, 0, 1},
		{"x.go", `e.build("--tag", "leat/tunnel:again")`, 1, 0},
		{"x.proto", `import "leat/agent/v1/agent.proto"; // of leat/v1`, 0, 0},
	} {
		if wrong, right := checkImages(own, c.file, c.line); len(wrong) != c.wrong || right != c.right {
			t.Errorf("%s: %s: got %q and %d right names, want %d and %d", c.file, c.line, wrong, right, c.wrong, c.right)
		}
	}
}

// TestVersionOnTheWayIsEverywhere requires that images of a checkout have its version as their tag,
// the Dockerfile as the version of their programs, and both charts as theirs.
func TestVersionOnTheWayIsEverywhere(t *testing.T) {
	t.Parallel()
	own, want := ownImages(t), app.Version()
	got := map[string]string{"deploy/images.env": own.Tag}
	expected := map[string]string{"deploy/images.env": want}
	for _, chart := range []string{"leat", "leat-agent"} {
		file := filepath.Join("deploy", "helm", chart, "Chart.yaml")
		content, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^(version|appVersion): (\S+)$`).FindAllStringSubmatch(string(content), -1) {
			got[file+" "+m[1]] = m[2]
		}
		maps.Copy(expected, map[string]string{file + " version": want, file + " appVersion": want})
	}
	dockerfile, err := os.ReadFile(filepath.Join(root(t), "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range regexp.MustCompile(`(?m)^ARG VERSION=(.*)$`).FindAllStringSubmatch(string(dockerfile), -1) {
		place := fmt.Sprintf("Dockerfile, ARG VERSION %d", i+1)
		got[place], expected[place] = m[1], want
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Errorf("versions (-internal/app +files):\n%s", diff)
	}
}

// ownImages returns how images are named.
func ownImages(t *testing.T) supply.Own {
	t.Helper()
	own, err := supply.ReadOwn(root(t))
	if err != nil {
		t.Fatal(err)
	}
	return own
}
