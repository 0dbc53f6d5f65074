// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package containers_test

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMachinesWithoutAnEngineAreTold runs the first step of `make containers` on machines that
// cannot start an engine. It prints what is missing in one line, and ends with a code of its own.
func TestMachinesWithoutAnEngineAreTold(t *testing.T) {
	t.Parallel()
	// What tools/system.sh looks for.
	installed := map[string]string{"id": "echo 0", "unshare": "echo unshare failed: Operation not permitted >&2; exit 1"}
	for program := range strings.FieldsSeq("git redis-server postgres curl openssl nginx zstd ssh gpg sshd ps dockerd runc busybox ip iptables") {
		installed[program] = "exit 1"
	}
	// The kernel makes namespaces, and mounts nothing in them.
	noLayers := maps.Clone(installed)
	noLayers["unshare"] = `until [ "$1" = true ] || [ "$1" = /bin/sh ]; do shift; done; "$@"`
	noLayers["mount"] = "echo mount: permission denied >&2; exit 32"
	for name, c := range map[string]struct {
		// programs are those of PATH, besides the usual ones, with their scripts.
		programs map[string]string
		// want is a pattern.
		want string
	}{
		"another system": {map[string]string{"uname": "echo Darwin"}, `it needs Linux`},
		"not root":       {map[string]string{"id": "echo 1000"}, `it has to run as root`},
		// Without apt-get nothing is installed.
		"no packages":   {map[string]string{"id": "echo 0"}, `please install:.* iproute2 .*`},
		"no layers":     {noLayers, `the kernel refuses what it does first \(mount: permission denied\)`},
		"no namespaces": {installed, `namespaces are refused \(unshare failed: Operation not permitted\)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			for _, program := range []string{"cat", "dirname", "grep", "ls", "mkdir", "mktemp", "rm", "sed", "tail", "uname", "id", "unshare"} {
				if c.programs[program] != "" {
					continue
				}
				path, err := exec.LookPath(program)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(path, filepath.Join(folder, program)); err != nil {
					t.Fatal(err)
				}
			}
			for program, script := range c.programs {
				if err := os.WriteFile(filepath.Join(folder, program), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			command := exec.CommandContext(t.Context(), "/bin/sh", "tools/containers/ready.sh")
			command.Dir, command.Env = top, []string{"PATH=" + folder, "XDG_CACHE_HOME=" + t.TempDir()}
			out, err := command.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 3 {
				t.Errorf("got %v, want it to end with 3", err)
			}
			want := regexp.MustCompile(`^leat: no container engine can start here: ` + c.want + `$`)
			if got := strings.TrimSpace(string(out)); !want.MatchString(got) {
				t.Errorf("got %q, want %s", got, want)
			}
		})
	}
}
