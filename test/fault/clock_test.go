// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/program"
)

// clockAhead is the variable of the environment that sets how far the clock of a program of
// buildWithClock is ahead, in whole seconds. Such a program does not start without it.
const clockAhead = "TEST_CLOCK_AHEAD"

// wrongTime is a file of package time, with the clock of a machine whose time service is broken.
// The monotonic clock stays right, as it does on such a machine.
const wrongTime = `package time

import "syscall"

var wrongBy = func() Duration {
	text, _ := syscall.Getenv("` + clockAhead + `")
	d, err := ParseDuration(text)
	if err != nil {
		panic("` + clockAhead + `: " + err.Error())
	}
	return d
}()

func wrongNow() (sec int64, nsec int32, mono int64) {
	sec, nsec, mono = runtimeNow()
	return sec + int64(wrongBy/Second), nsec, mono
}
`

// withWrongNow returns the file time.go of package time with a Now that reads wrongNow. It fails if
// Now is not written as expected, which a release of Go may change.
func withWrongNow(source string) (string, error) {
	const now, right, wrong = "\nfunc Now() Time {\n\t", "sec, nsec, mono := runtimeNow()\n", "sec, nsec, mono := wrongNow()\n"
	if strings.Count(source, now+right) != 1 {
		return "", fmt.Errorf("the time.go of %s has no function Now that begins with %q: see how it reads the clock, and change withWrongNow",
			runtime.Version(), strings.TrimSpace(right))
	}
	return strings.Replace(source, now+right, now+wrong, 1), nil
}

// clockOverlay returns the file of a flag -overlay with which Go compiles a program whose wall clock
// is ahead. Nothing outside of a program can change its clock, because Go reads the time without a
// call of libc or the kernel. The toolchain's own files stay as they are, so only programs that are
// compiled with this flag have another clock.
func clockOverlay(t *testing.T) string {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	folder, source := t.TempDir(), filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	changed, err := withWrongNow(string(text))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"time.go": changed, "leat_wrong.go": wrongTime}
	replaced := map[string]string{}
	for name, content := range files {
		replaced[filepath.Join(source, name)] = filepath.Join(folder, name)
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// buildWithClock compiles the program of a folder with a clock that clockAhead sets.
func buildWithClock(t *testing.T, folder string) string {
	t.Helper()
	binary, err := program.Compile(t.Context(), t.TempDir(), folder, "-overlay="+clockOverlay(t))
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// moveTo stops a process and starts it with a binary of buildWithClock, as on a machine whose clock
// is ahead. The returned function moves it back.
func (p *process) moveTo(t *testing.T, binary string, ahead time.Duration) (back func(t *testing.T)) {
	t.Helper()
	before, env := p.binary, p.env
	p.stop(t)
	p.binary, p.env = binary, append(slices.Clone(env), clockAhead+"="+ahead.String())
	p.start(t)
	return func(t *testing.T) {
		t.Helper()
		p.stop(t) // as kubectl delete pod does, after which another one starts on another machine
		p.binary, p.env = before, env
		p.start(t)
	}
}

// TestWrongClock shows that the game day's clock is wrong in the programs that are compiled for it,
// and that a release of Go that reads the time otherwise is noticed before a game day.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	const ahead = 5 * time.Minute
	binary := buildWithClock(t, "./testdata/clock")
	before := time.Now()
	command := exec.CommandContext(t.Context(), binary)
	command.Env = append(os.Environ(), clockAhead+"="+ahead.String())
	text, err := command.Output()
	after := time.Now()
	if err != nil {
		t.Fatal(err)
	}
	got, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		t.Fatal(err)
	}
	if got.Before(before.Add(ahead).Truncate(time.Second)) || got.After(after.Add(ahead)) {
		t.Errorf("got %s, want the time between %s and %s plus %s", got, before, after, ahead)
	}
	if out, err := exec.CommandContext(t.Context(), binary).CombinedOutput(); err == nil || !strings.Contains(string(out), clockAhead) {
		t.Errorf("without a value: got %v, want a failure that names %s: %s", err, clockAhead, out)
	}
	_, err = withWrongNow("package time\n\nfunc Now() Time {\n\treturn runtimeClock()\n}\n")
	if err == nil || !strings.Contains(err.Error(), runtime.Version()) || !strings.Contains(err.Error(), "withWrongNow") {
		t.Errorf("got %v for a Now that reads the clock otherwise, want an error that names the release of Go and what to change", err)
	}
}
