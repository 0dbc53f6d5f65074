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

	"github.com/leatdev/leat/internal/testkit/standin"
)

// TestMachinesWithoutAnEngineAreTold runs the first step of `make containers`, and the first step
// of `make node`, on machines that cannot start an engine or a node. It prints the missing parts in
// one line, and ends with a code of its own.
func TestMachinesWithoutAnEngineAreTold(t *testing.T) {
	t.Parallel()
	// The programs that tools/system.sh looks for.
	installed := map[string]string{"id": "echo 0", "unshare": "echo unshare failed: Operation not permitted >&2; exit 1"}
	for program := range strings.FieldsSeq("git redis-server postgres curl openssl nginx zstd ssh gpg sshd ps dockerd runc busybox ip iptables") {
		installed[program] = "exit 1"
	}
	// The kernel makes namespaces, and mounts nothing in them.
	noLayers := maps.Clone(installed)
	noLayers["unshare"] = `until [ "$1" = true ] || [ "$1" = /bin/sh ]; do shift; done; "$@"`
	noLayers["mount"] = "echo mount: permission denied >&2; exit 32"
	for name, c := range map[string]struct {
		// args are the arguments of ready.sh.
		args []string
		// programs are the programs of PATH, besides the usual ones, with their scripts.
		programs map[string]string
		// want is a pattern.
		want string
	}{
		"another system": {nil, map[string]string{"uname": "echo Darwin"}, `it needs Linux`},
		"not root":       {nil, map[string]string{"id": "echo 1000"}, `it has to run as root`},
		// Without apt-get nothing is installed.
		"no packages":         {nil, map[string]string{"id": "echo 0"}, `please install:.* iproute2 .*`},
		"no layers":           {nil, noLayers, `the kernel refuses what it does first \(mount: permission denied\)`},
		"no namespaces":       {nil, installed, `namespaces are refused \(unshare failed: Operation not permitted\)`},
		"a node, not root":    {[]string{"node"}, map[string]string{"id": "echo 1000"}, `it has to run as root`},
		"a node, no packages": {[]string{"node"}, map[string]string{"id": "echo 0"}, `please install:.* iproute2 .*`},
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
			for program, body := range c.programs {
				standin.Write(t, filepath.Join(folder, program), "#!/bin/sh\n"+body+"\n")
			}
			command := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"tools/containers/ready.sh"}, c.args...)...)
			command.Dir, command.Env = top, []string{"PATH=" + folder, "XDG_CACHE_HOME=" + t.TempDir()}
			out, err := command.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 3 {
				t.Errorf("got %v, want it to end with 3", err)
			}
			what := "container engine"
			if c.args != nil {
				what = "Kubernetes node"
			}
			want := regexp.MustCompile(`^leat: no ` + what + ` can start here: ` + c.want + `$`)
			if got := strings.TrimSpace(string(out)); !want.MatchString(got) {
				t.Errorf("got %q, want %s", got, want)
			}
		})
	}
}
