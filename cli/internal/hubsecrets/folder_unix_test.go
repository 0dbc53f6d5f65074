// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package hubsecrets_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/leatdev/leat/cli/internal/hubsecrets"
)

// TestFilesHaveTheGroupOfTheirReader uses a further group of the process, if it has one: no privilege
// is needed for that.
func TestFilesHaveTheGroupOfTheirReader(t *testing.T) {
	t.Parallel()
	own := os.Getgid()
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	further := append([]int{own}, groups...)[len(groups)]
	p := params(t.TempDir())
	p.Groups = map[string]int{"redis": further}
	run(t, p)
	for name, want := range map[string]int{
		"redis": further, "redis/gitcache-password": further, "authority": own, "authority/ca.pem": own, "postgres/password": own,
	} {
		info, err := os.Stat(filepath.Join(p.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := info.Sys().(*syscall.Stat_t); !ok || int(got.Gid) != want || int(got.Uid) != os.Getuid() {
			t.Errorf("%s: got the owner %+v, want this user and the group %d", name, info.Sys(), want)
		}
	}
}

// TestGroupsOfOthers requires an error of its own for a group to which the process may not give files.
func TestGroupsOfOthers(t *testing.T) {
	t.Parallel()
	const group = 4242
	if err := os.Chown(t.TempDir(), -1, group); err == nil {
		t.Skip("this process may give files to every group")
	}
	p := params(t.TempDir())
	p.Groups = map[string]int{"redis": group}
	if _, err := hubsecrets.Make(p); !errors.Is(err, hubsecrets.ErrGroup) {
		t.Errorf("got %v, want ErrGroup", err)
	}
}
