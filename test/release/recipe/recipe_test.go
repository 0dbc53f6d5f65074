// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package recipe_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/test/release/ocilayout"
	"github.com/leatdev/leat/test/release/recipe"
)

// list returns the files in the form in which tar prints them.
func list(files []recipe.File) []string {
	var lines []string
	for _, f := range files {
		content := f.Source
		if f.IsProgram {
			content = "the program"
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%v %d:%d /%s %s", f.Mode, f.UID, f.GID, f.Path, content)))
	}
	return lines
}

// labels returns the labels of an image of the tree's Dockerfile.
func labels(title string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title": title, "org.opencontainers.image.version": "1.2.3", "org.opencontainers.image.revision": "abc",
		"org.opencontainers.image.description": "Git-aware CDN and auth proxy for fleets of Kubernetes clusters",
		"org.opencontainers.image.source":      "https://github.com/leatdev/leat",
		"org.opencontainers.image.licenses":    "Apache-2.0", "org.opencontainers.image.vendor": "The Leat Authors",
	}
}

// TestImagesOfTheDockerfile reads the images of the tree's own Dockerfile.
func TestImagesOfTheDockerfile(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	ldflags := "-s -w -X github.com/leatdev/leat/internal/runtime/app.version=1.2.3 -X github.com/leatdev/leat/internal/runtime/app.commit=abc"
	const path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, test := range []struct {
		target, service string
		args            []string
		files           []string
		config          ocilayout.Config
	}{
		{
			service: "tunnel",
			args:    []string{"-C", "services/tunnel", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", "/x", "./cmd/tunnel"},
			files: []string{
				"drwxr-xr-x 0:0 /etc", "drwxr-xr-x 0:0 /etc/ssl", "drwxr-xr-x 0:0 /etc/ssl/certs",
				"-rw-r--r-- 0:0 /etc/ssl/certs/ca-certificates.crt deploy/image/ca-certificates.crt",
				"drwxr-xr-x 0:0 /licenses", "-rw-r--r-- 0:0 /licenses/LICENSE LICENSE",
				"-rw-r--r-- 0:0 /licenses/THIRD_PARTY_NOTICES.txt THIRD_PARTY_NOTICES.txt",
				"drwxr-xr-x 0:0 /usr", "drwxr-xr-x 0:0 /usr/local", "drwxr-xr-x 0:0 /usr/local/bin", "-rwxr-xr-x 0:0 /usr/local/bin/leat-service the program",
				"drwxr-xr-x 0:0 /var", "drwxr-xr-x 0:0 /var/lib", "drwx------ 65532:65532 /var/lib/leat",
			},
			config: func() (c ocilayout.Config) {
				c.User, c.WorkingDir, c.Env, c.Labels = "65532:65532", "/", []string{path}, labels("Leat tunnel")
				c.Entrypoint = []string{"/usr/local/bin/leat-service"}
				c.Healthcheck = &ocilayout.Healthcheck{
					Test: []string{"CMD", "/usr/local/bin/leat-service", "health"}, Interval: 5 * time.Second, Timeout: 10 * time.Second,
					StartPeriod: time.Minute, Retries: 6,
				}
				return c
			}(),
		},
		{
			target: "cli",
			args:   []string{"-C", "cli", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", "/x", "./cmd/leat"},
			files: []string{
				"drwxr-xr-x 0:0 /etc", "drwxr-xr-x 0:0 /etc/ssl", "drwxr-xr-x 0:0 /etc/ssl/certs",
				"-rw-r--r-- 0:0 /etc/ssl/certs/ca-certificates.crt deploy/image/ca-certificates.crt",
				"drwxr-xr-x 0:0 /home", "drwx------ 65532:65532 /home/leat",
				"drwxr-xr-x 0:0 /licenses", "-rw-r--r-- 0:0 /licenses/LICENSE LICENSE",
				"-rw-r--r-- 0:0 /licenses/THIRD_PARTY_NOTICES.txt THIRD_PARTY_NOTICES.txt",
				"drwxr-xr-x 0:0 /usr", "drwxr-xr-x 0:0 /usr/local", "drwxr-xr-x 0:0 /usr/local/bin", "-rwxr-xr-x 0:0 /usr/local/bin/leat the program",
			},
			config: func() (c ocilayout.Config) {
				c.User, c.WorkingDir, c.Env, c.Labels = "65532:65532", "/home/leat", []string{path, "HOME=/home/leat"}, labels("Leat command line")
				c.Entrypoint = []string{"/usr/local/bin/leat"}
				return c
			}(),
		},
	} {
		args := map[string]string{"SERVICE": test.service, "VERSION": "1.2.3", "REVISION": "abc"}
		got, err := recipe.Read(string(content), test.target, args)
		if err != nil {
			t.Errorf("stage %q: %v", test.target, err)
			continue
		}
		if diff := cmp.Diff(test.args, got.Compile.Args("/x")); diff != "" {
			t.Errorf("stage %q: arguments of go (-want +got):\n%s", test.target, diff)
		}
		if diff := cmp.Diff([]string{"CGO_ENABLED=0", "GOWORK=off"}, got.Compile.Env); diff != "" {
			t.Errorf("stage %q: environment of go (-want +got):\n%s", test.target, diff)
		}
		if diff := cmp.Diff(test.files, list(got.Files)); diff != "" {
			t.Errorf("stage %q: files (-want +got):\n%s", test.target, diff)
		}
		if diff := cmp.Diff(test.config, got.Config); diff != "" {
			t.Errorf("stage %q: configuration (-want +got):\n%s", test.target, diff)
		}
	}
	if _, err := recipe.Read(string(content), "git", map[string]string{"SERVICE": "gitcache"}); err == nil || !strings.Contains(err.Error(), "only an engine") {
		t.Errorf("got %v, want the variant with Debian's packages left to an engine", err)
	}
}

// small is a Dockerfile that is understood.
const small = `ARG SERVICE=x
FROM golang:1 AS build
ARG VERSION=dev
COPY --from=ui / services/distributor/internal/ui/dist/
RUN --mount=type=cache,target=/go/pkg/mod GOWORK=off go mod download
RUN CGO_ENABLED=0 go build -ldflags "-X v=${VERSION}" -o /out/bin/x ./cmd/x
RUN install -D -m 0644 a/b /out/etc/b && install -d -m 0700 -o 1 -g 2 /out/data \
    # a comment
    && find /out -exec touch -d @0 {} +
FROM scratch
COPY --from=build /out/ /
LABEL a="b c"
ENTRYPOINT ["/bin/x", "[y]"]
`

// TestUnknownInstructionsAreRefused changes a Dockerfile so that an engine would make another image.
func TestUnknownInstructionsAreRefused(t *testing.T) {
	t.Parallel()
	if _, err := recipe.Read(small, "", nil); err != nil {
		t.Fatalf("got %v, want it understood", err)
	}
	last := func(line string) [2]string { return [2]string{"LABEL a=", line + "\nLABEL a="} }
	command := func(text string) [2]string { return [2]string{"install -D", text + " && install -D"} }
	for name, change := range map[string][2]string{
		"a volume":                      last("VOLUME /data"),
		"a command":                     last(`CMD ["x"]`),
		"a port":                        last("EXPOSE 1"),
		"a command in the image":        last("RUN x"),
		"a file of the checkout":        last("COPY a /a"),
		"a file of another image":       last("COPY --from=busybox /bin/sh /bin/sh"),
		"another folder of the stage":   last("COPY --from=build /etc/passwd /etc/passwd"),
		"a health check of a shell":     last("HEALTHCHECK CMD x [y]"),
		"no health check":               last("HEALTHCHECK NONE"),
		"a variable that is not an ARG": last("LABEL b=${B}"),
		"a variable of a shell":         last("LABEL b=$B"),
		"a variable without a value":    last("ENV B c"),
		"two users":                     last("USER a b"),
		"an entry point of a shell":     {`["/bin/x", "[y]"]`, "/bin/x"},
		"a base image":                  {"FROM scratch", "FROM debian"},
		"another stage":                 {"--from=build", "--from=other"},
		"a command of a shell":          command("echo x"),
		"a pipe":                        command("install a|b"),
		"a file in the background":      command("install -D -m 0644 a/b /out/c &"),
		"a file that a shell writes":    command("install >/out/x"),
		"a file without a mode":         command("install -D a/b /out/c"),
		"a file outside of the tree":    command("install -D -m 0644 /etc/passwd /out/etc/passwd"),
		"a mode that is not one":        command("install -D -m 4755 a/b /out/c"),
		"a way up":                      command("install -D -m 0644 a/b /out/../c"),
		"a file into the stage":         {"RUN install", "COPY a /out/a\nRUN install"},
		"a file after the times":        {"{} +", "{} + && install -D -m 0644 a/b /out/c"},
		"no times":                      {"find /out -exec touch -d @0 {} +", "go mod download"},
		"other times":                   {"@0", "@1"},
		"files of another stage":        {"RUN install", "COPY --from=other / services/distributor/internal/ui/dist/\nRUN install"},
		"the web UI somewhere else":     {"RUN install", "COPY --from=ui / services/\nRUN install"},
		"two programs":                  {"RUN install", "RUN go build -o /out/bin/y ./cmd/y\nRUN install"},
		"no program":                    {`go build -ldflags "-X v=${VERSION}" -o /out/bin/x ./cmd/x`, "go mod download"},
		"a quote without an end":        {`"b c"`, `"b c`},
		"a mount of a secret":           {"--mount=type=cache", "--mount=type=secret"},
	} {
		changed := strings.Replace(small, change[0], change[1], 1)
		if changed == small {
			t.Fatalf("%s: the change changes nothing", name)
		}
		if got, err := recipe.Read(changed, "", nil); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}
