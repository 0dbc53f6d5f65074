// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"bufio"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/kit/childproc"
)

// disk is a small file system in memory that holds a folder. It is in a mount namespace of its own,
// which needs no root. Only the processes that are started in it see it.
type disk struct {
	dir       string
	holder    int // the process that keeps it while no other one is in it
	mebibytes int
}

// newDisk mounts a disk at a folder until the test ends. It returns nil for no size.
func newDisk(t *testing.T, dir string, mebibytes int) *disk {
	t.Helper()
	if mebibytes == 0 {
		return nil
	}
	holder := exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec",
		`mount -t tmpfs -o "size=$1m,mode=700" leat "$0"; echo mounted; exec cat`, dir, strconv.Itoa(mebibytes))
	said := &strings.Builder{}
	holder.Stderr = said
	pipes, ended, err := childproc.StartPiped(holder)
	if err != nil {
		t.Fatalf("mount a disk: %v", err)
	}
	t.Cleanup(func() {
		_ = holder.Process.Kill()
		<-ended
		_ = pipes.Close()
	})
	if !bufio.NewScanner(pipes.Out).Scan() {
		<-ended
		t.Fatalf("mount a disk, which takes Linux with user namespaces, unshare, nsenter and mount: %s", said)
	}
	return &disk{dir: dir, holder: holder.Process.Pid, mebibytes: mebibytes}
}

// command returns a command that sees the disk. Without a disk, it is an ordinary command.
func (d *disk) command(name string, args ...string) *exec.Cmd {
	if d == nil {
		return exec.Command(name, args...)
	}
	inside := []string{"--preserve-credentials", "--user", "--mount", "--target", strconv.Itoa(d.holder), "--", name}
	return exec.Command("nsenter", append(inside, args...)...)
}

// fill has another program write to the disk until it has no room left.
func (d *disk) fill(t *testing.T) {
	t.Helper()
	out, err := d.command("sh", "-c", `cat /dev/zero >"$0/others"`, d.dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "No space left on device") {
		t.Fatalf("fill a disk: got %v %s", err, out)
	}
}

// grow gives the disk twice the room.
func (d *disk) grow(t *testing.T) {
	t.Helper()
	d.mebibytes *= 2
	if out, err := d.command("mount", "-o", fmt.Sprintf("remount,size=%dm", d.mebibytes), d.dir).CombinedOutput(); err != nil {
		t.Fatalf("grow a disk: %v %s", err, out)
	}
}
