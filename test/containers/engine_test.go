// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package containers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/test/supply"
)

// There is one stack, and builds share one cache, so a test holds the lock of what it changes.
var stack, builds sync.Mutex

// engine runs the clients of the engine that `make containers` started.
type engine struct {
	docker, compose string
	// services are the services of the compose file that are brought up.
	services []string
	// own holds the names of the images that `make containers` has built.
	own supply.Own
	// env are the variables that every command gets besides the test's own.
	env []string
}

// requireEngine returns the engine. Without one it skips the test.
func requireEngine(t *testing.T) *engine {
	t.Helper()
	compose := os.Getenv("LEAT_CONTAINERS_COMPOSE")
	if compose == "" {
		t.Skip("LEAT_CONTAINERS_COMPOSE is not set: images and docker-compose.yml are left to `make containers`")
	}
	own, err := supply.ReadOwn(top)
	if err != nil {
		t.Fatal(err)
	}
	return &engine{
		docker: os.Getenv("LEAT_CONTAINERS_DOCKER"), compose: compose, services: strings.Fields(os.Getenv("LEAT_CONTAINERS_SERVICES")), own: own,
	}
}

// requireStack returns the engine with these variables for its commands. Until the test ends it has the
// stack to itself, which is taken down before and after it, with the services of all profiles.
func requireStack(t *testing.T, env ...string) *engine {
	t.Helper()
	e := requireEngine(t)
	e.env = append([]string{"COMPOSE_ANSI=never", "COMPOSE_PROGRESS=quiet"}, env...)
	stack.Lock()
	t.Cleanup(stack.Unlock)
	down := func() { e.down(t, "--volumes", "--remove-orphans") }
	down() // what a run before this one left would be taken for this one's
	t.Cleanup(down)
	t.Cleanup(func() {
		if t.Failed() {
			logs, err := e.run(t, nil, e.compose, "--profile", "*", "logs", "--no-color", "--tail", "200")
			t.Logf("the last of what the containers logged: %v\n%s", err, logs)
		}
	})
	return e
}

// run returns what a program prints to its standard output, without blanks at the ends.
func (e *engine) run(t *testing.T, stdin io.Reader, name string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...)
	command.Dir, command.Stdin, command.Env = top, stdin, append(os.Environ(), e.env...)
	var complaints bytes.Buffer
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, bytes.TrimSpace(complaints.Bytes()))
	}
	return strings.TrimSpace(string(out)), err
}

// ask is [engine.run] of docker for a command that has to succeed.
func (e *engine) ask(t *testing.T, args ...string) string {
	t.Helper()
	out, err := e.run(t, nil, e.docker, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// logs returns the last lines that a container printed.
func (e *engine) logs(t *testing.T, container string) string {
	t.Helper()
	out, err := e.run(t, nil, "sh", "-c", `exec "$0" logs --tail 40 "$1" 2>&1`, e.docker, container)
	if err != nil {
		return err.Error()
	}
	return out
}

// do is [engine.run] of docker compose for a command that has to succeed.
func (e *engine) do(t *testing.T, args ...string) string {
	t.Helper()
	out, err := e.run(t, nil, e.compose, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// up starts the services and returns when all of them are healthy.
func (e *engine) up(t *testing.T) {
	t.Helper()
	e.do(t, append([]string{"up", "--detach", "--no-build", "--wait"}, e.services...)...)
}

// down takes the services of all profiles down. The engine may have miscounted a network's containers, and then
// refuses to remove it until the engine starts again (https://github.com/moby/moby/issues/42119). Such a network
// serves the next stack as well.
func (e *engine) down(t *testing.T, flags ...string) {
	t.Helper()
	_, err := e.run(t, nil, e.compose, append([]string{"--profile", "*", "down"}, flags...)...)
	if err == nil {
		return
	}
	network := isMiscounted.FindStringSubmatch(err.Error())
	if network == nil {
		t.Fatal(err)
	}
	t.Logf("the engine keeps a network: %v", err)
	if containers := e.ask(t, "network", "inspect", "--format", "{{ len .Containers }}", network[1]); containers != "0" {
		t.Fatalf("%s containers are left in it", containers)
	}
}

var isMiscounted = regexp.MustCompile("network (leat_[a-z]+) id [0-9a-f]+ has active endpoints")

// build is docker build. The engine asks its client every few seconds whether it is there, and gives it
// up on a machine that is busy enough. Such a build begins again.
func (e *engine) build(t *testing.T, args ...string) {
	t.Helper()
	await.Success(t, "docker build", func(context.Context) error {
		_, err := e.run(t, nil, e.docker, append([]string{"build", "--quiet"}, args...)...)
		if err != nil && !isGivenUp.MatchString(err.Error()) {
			t.Fatal(err)
		}
		return err
	})
}

var isGivenUp = regexp.MustCompile("transport is closing|connection is closing|no active session")

// container returns the name of a service's container.
func container(service string) string { return "leat-" + service + "-1" }

// address returns the address of a service's container on a network of the compose file.
func (e *engine) address(t *testing.T, service, network string) string {
	t.Helper()
	return e.ask(t, "inspect", "--format", fmt.Sprintf(`{{ (index .NetworkSettings.Networks "leat_%s").IPAddress }}`, network), container(service))
}

// files returns the paths in an image, with the owners and modes of the ones that others could use.
func (e *engine) files(t *testing.T, image string) []string {
	t.Helper()
	id := e.ask(t, "create", image)
	defer e.ask(t, "rm", id)
	archive := filepath.Join(t.TempDir(), "image.tar")
	e.ask(t, "export", "--output", archive, id)
	listing, err := e.run(t, nil, "tar", "--numeric-owner", "-tvf", archive)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for line := range strings.Lines(listing) {
		f := strings.Fields(line)
		if path := f[5]; !isMadeByEngine(path) {
			files = append(files, f[0]+" "+f[1]+" "+path)
		}
	}
	slices.Sort(files)
	return files
}

// isMadeByEngine reports whether the engine makes a path in every container.
func isMadeByEngine(path string) bool {
	return slices.ContainsFunc([]string{"dev/", "proc/", "sys/", "etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/mtab", ".dockerenv"},
		func(made string) bool { return strings.HasPrefix(path, made) })
}

// imageConfig holds those parts of an image that the tests compare.
type imageConfig struct {
	Config struct {
		User        string
		Env         []string
		Entrypoint  []string
		Volumes     map[string]any
		Labels      map[string]string
		Healthcheck *struct{ Test []string }
	}
	RootFS struct{ Layers []string }
}

func (e *engine) image(t *testing.T, name string) imageConfig {
	t.Helper()
	var images []imageConfig
	if err := json.Unmarshal([]byte(e.ask(t, "image", "inspect", name)), &images); err != nil {
		t.Fatal(err)
	}
	return images[0]
}
