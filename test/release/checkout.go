// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// checkout is a clean checkout of a commit.
type checkout struct {
	// top is its root.
	top string
	// commit is the commit's full name.
	commit string
	// time is the commit's. All dates of a release are this time, and not the machine's.
	time time.Time
	// isTagged reports whether the commit has the tag of the version that is made.
	isTagged bool
}

// errNotCommitted means that a release would hold more than the commit that it names.
var errNotCommitted = errors.New("the checkout has changes that are not committed; commit or remove them")

// readCheckout returns the checkout for a release of the version. It fails if something is not
// committed, and if the tags give the commit another version, or the version another commit.
func readCheckout(ctx context.Context, top string, version Version) (checkout, error) {
	// The machine's settings may hide files that Git does not track.
	changes, err := git(ctx, top, "status", "--porcelain", "--untracked-files=all")
	if err != nil {
		return checkout{}, err
	}
	if changes != "" {
		return checkout{}, fmt.Errorf("%w:\n%s", errNotCommitted, changes)
	}
	c := checkout{top: top}
	if c.commit, err = git(ctx, top, "rev-parse", "--verify", "HEAD^{commit}"); err != nil {
		return checkout{}, err
	}
	committed, err := git(ctx, top, "log", "-1", "--format=%ct", c.commit)
	if err != nil {
		return checkout{}, err
	}
	seconds, err := strconv.ParseInt(committed, 10, 64)
	if err != nil {
		return checkout{}, fmt.Errorf("read the time of commit %s: %w", c.commit, err)
	}
	c.time = time.Unix(seconds, 0).UTC()
	return c, c.checkTags(ctx, version)
}

// checkTags sets isTagged. A commit without a tag of a version can be made into any new one.
func (c *checkout) checkTags(ctx context.Context, version Version) error {
	list, err := git(ctx, c.top, "tag", "--points-at", c.commit)
	if err != nil {
		return err
	}
	tags := slices.DeleteFunc(strings.Fields(list), func(tag string) bool { return !semver.IsValid(tag) })
	if c.isTagged = slices.Contains(tags, version.Tag()); c.isTagged {
		return nil
	}
	if len(tags) > 0 {
		return fmt.Errorf("VERSION: got %s, want %s, which is the tag of this commit", version.Tag(), strings.Join(tags, " or "))
	}
	taken, err := git(ctx, c.top, "tag", "--list", version.Tag())
	if err == nil && taken != "" {
		err = fmt.Errorf("VERSION: %s is the tag of another commit than this one, %s", version.Tag(), c.commit)
	}
	return err
}

// git returns what a command of git prints, without line ends after it.
func git(ctx context.Context, top string, args ...string) (string, error) {
	return output(exec.CommandContext(ctx, "git", append([]string{"-C", top}, args...)...))
}

// output runs a command and returns what it prints, without line ends after it. The error has what it
// printed about the failure.
func output(command *exec.Cmd) (string, error) {
	var complaints bytes.Buffer
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, bytes.TrimSpace(complaints.Bytes()))
	}
	return strings.TrimRight(string(out), "\n"), nil
}
