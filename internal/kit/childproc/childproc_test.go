// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package childproc_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/childproc"
	"github.com/leatdev/leat/internal/testkit/await"
)

// role, set in its environment, makes the test binary a parent that starts a child and prints its
// process id.
const role = "LEAT_TEST_CHILDPROC_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(role) == "" {
		os.Exit(m.Run())
	}
	child := exec.Command("sleep", "600")
	if _, err := childproc.Start(child); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(child.Process.Pid)
	select {}
}

// TestChildEndsWithItsParent kills a parent, which gets no time to end its child.
func TestChildEndsWithItsParent(t *testing.T) {
	t.Parallel()
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), role+"=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("parent: %s", line)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the child is not there: %v", err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // the error only reports that it was killed
	t.Cleanup(func() {
		if t.Failed() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	await.True(t, "the child to end with its parent", func() bool { return !alive(pid) })
}

// alive reports whether a process runs. A process that has ended stays listed until its parent has
// waited for it.
func alive(pid int) bool {
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}

func TestEndIsTold(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{"exit 0": "exit status 0", "exit 3": "exit status 3", "kill -9 $$": "signal: killed"} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		ended, err := childproc.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		<-ended
		if got := cmd.ProcessState.String(); got != want {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
	}
	if _, err := childproc.Start(exec.CommandContext(t.Context(), "/nonexistent/program")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v for a program that is not there", err)
	}
}

// TestChildHasAGroupOfItsOwn checks that the child is not in the terminal's group, and has the
// attributes that its command requested.
func TestChildHasAGroupOfItsOwn(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	given := &syscall.SysProcAttr{}
	cmd.SysProcAttr = given
	ended, err := childproc.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	group, err := syscall.Getpgid(cmd.Process.Pid)
	if err != nil || group != cmd.Process.Pid || cmd.SysProcAttr != given {
		t.Errorf("got group %d of process %d (%v), want its own group and the requested attributes", group, cmd.Process.Pid, err)
	}
	_ = cmd.Process.Kill()
	<-ended
}

// TestPipedChildAnswers writes to a child and reads what the child wrote before it ended.
func TestPipedChildAnswers(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "read -r line; echo \"got $line\"")
	pipes, ended, err := childproc.StartPiped(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pipes.In.WriteString("word\n"); err != nil {
		t.Fatal(err)
	}
	<-ended
	answer, err := io.ReadAll(pipes.Out)
	if err != nil || string(answer) != "got word\n" {
		t.Errorf("got %q (%v), want the answer, and its end", answer, err)
	}
	if err := pipes.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := childproc.StartPiped(exec.CommandContext(t.Context(), "/nonexistent/program")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v for a program that is not there", err)
	}
}

// TestKillGroupEndsGrandchildren waits until the pipe is closed, which a grandchild also holds
// open.
func TestKillGroupEndsGrandchildren(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 600 & echo started; wait")
	pipes, ended, err := childproc.StartPiped(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer pipes.Close()
	if _, err := bufio.NewReader(pipes.Out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	childproc.KillGroup(cmd)
	<-ended
	if err := pipes.Out.SetReadDeadline(time.Now().Add(await.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(pipes.Out); err != nil {
		t.Errorf("the grandchild lives: %v", err)
	}
}
