// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/runtime/localkube"
)

// fitting returns the minor versions of a program that work with the other programs. They follow
// tools/kube, which a test compares. kube-apiserver 1.36 was released with etcd 3.6, and kubectl may be
// one minor version away.
func fitting(file string) []string {
	switch file {
	case localkube.EtcdFile:
		return []string{"3.6", "3.7"}
	case localkube.KwokFile:
		return []string{"0.8"}
	case localkube.KubectlFile:
		return []string{"1.35", "1.36", "1.37"}
	default:
		return []string{"1.36"}
	}
}

// probeTimeout is how long a program may take to print its version.
const probeTimeout = 30 * time.Second

var versionPattern = regexp.MustCompile(`\bv?([0-9]+\.[0-9]+)(\.[0-9]+[-+.0-9A-Za-z]*)`)

// prober checks files before they are taken.
type prober struct {
	etcdData string // as Params.EtcdData
}

// misfit returns why the program at path cannot be taken, or "". It runs the program for its
// version.
func (p prober) misfit(ctx context.Context, file, path string) string {
	printed, err := printedVersion(ctx, file, path)
	if err != nil {
		return fmt.Sprintf("%s does not run: %v", path, err)
	}
	return p.misfitVersion(file, printed)
}

// misfitBuilt is misfit for a file in the cache of builds, whose folder is named after its version.
func (p prober) misfitBuilt(file, path string) string {
	return p.misfitVersion(file, filepath.Base(filepath.Dir(path)))
}

// misfitPinned is misfit for a file of a release, whose versions fit. Only etcd depends on data.
func (p prober) misfitPinned(ctx context.Context, file, path string) string {
	if file != localkube.EtcdFile || p.etcdData == "" {
		return ""
	}
	return p.misfit(ctx, file, path)
}

func (p prober) misfitVersion(file, text string) string {
	match := versionPattern.FindStringSubmatch(text)
	if match == nil {
		return file + " does not print its version"
	}
	minor, version := match[1], match[1]+match[2]
	if want := fitting(file); !slices.Contains(want, minor) {
		return fmt.Sprintf("%s %s does not fit, want %s", file, version, strings.Join(want, " or "))
	}
	if file == localkube.EtcdFile && isOlder(minor, p.etcdData) {
		return fmt.Sprintf("etcd %s cannot read the data that etcd %s wrote", version, p.etcdData)
	}
	return ""
}

// isOlder reports whether the minor version is lower than in version, which may be empty.
func isOlder(minor, version string) bool {
	match := versionPattern.FindStringSubmatch(version)
	if match == nil {
		return false
	}
	return slices.Compare(numbers(minor), numbers(match[1])) < 0
}

// IsNewer reports whether the version a, which may be empty, has a newer minor version than b.
func IsNewer(a, b string) bool {
	match := versionPattern.FindStringSubmatch(b)
	if match == nil {
		return a != ""
	}
	return isOlder(match[1], a)
}

func numbers(minor string) (parts []int) {
	for part := range strings.SplitSeq(minor, ".") {
		n, _ := strconv.Atoi(part) // digits, by the pattern
		parts = append(parts, n)
	}
	return parts
}

func printedVersion(ctx context.Context, file, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	args := []string{"--version"}
	if file == localkube.KubectlFile {
		args = []string{"version", "--client"}
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = time.Second // a child of the program may keep the output open
	var output bytes.Buffer
	cmd.Stdout = &output
	err := cmd.Run()
	return output.String(), err
}
