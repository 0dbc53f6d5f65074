// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/gogit"
	"github.com/leatdev/leat/services/gitcache/internal/memory"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	clones = 8
	// besides is the memory of a process that clones nothing: the runtime, the program, and eight
	// connections.
	besides = 48 << 20

	clonesURL    = "LEAT_TEST_CLONES_URL"
	clonesMemory = "LEAT_TEST_CLONES_MEMORY"
	clonesReport = "LEAT_TEST_CLONES_REPORT"
)

// TestEightClonesStayBelowTheCeiling asks for eight clones at once where memory is for one or two.
func TestEightClonesStayBelowTheCeiling(t *testing.T) {
	if url := os.Getenv(clonesURL); url != "" {
		cloneAll(t, url)
		return
	}
	t.Parallel()
	const bound = 96 << 20
	url, _ := serveLarge(t, 1_000, 3_000)
	peak := peakOfClones(t, url, bound)
	t.Logf("peak: %d MiB", peak>>20)
	if peak > bound+besides {
		t.Errorf("got a peak of %d MiB, want at most %d MiB", peak>>20, (bound+besides)>>20)
	}
}

// BenchmarkEightClones does the same with a repository of a quarter of a million objects.
func BenchmarkEightClones(b *testing.B) {
	const bound = 256 << 20
	url, objects := serveLarge(b, 12_000, 20_000)
	for b.Loop() {
		peak := peakOfClones(b, url, bound)
		b.ReportMetric(float64(peak)/(1<<20), "MiB-peak")
		b.ReportMetric(float64(objects), "objects")
		if peak > bound+besides {
			b.Errorf("got a peak of %d MiB, want at most %d MiB", peak>>20, (bound+besides)>>20)
		}
	}
}

// peakOfClones has another process clone, and returns the most memory that it had, in bytes. That
// process reads it itself: what the system reports of an ended child counts its parent's memory
// too.
func peakOfClones(tb testing.TB, url string, bound int64) int64 {
	tb.Helper()
	report := filepath.Join(tb.TempDir(), "status")
	cmd := exec.CommandContext(tb.Context(), os.Args[0], "-test.run=^TestEightClonesStayBelowTheCeiling$", "-test.v")
	cmd.Env = append(os.Environ(), clonesURL+"="+url, clonesMemory+"="+strconv.FormatInt(bound, 10), clonesReport+"="+report,
		"GOGC=100") // as it is shipped; make test collects less often
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("clone: %v\n%s", err, out)
	}
	status, err := os.ReadFile(report)
	if err != nil {
		tb.Fatal(err)
	}
	match := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if match == nil {
		tb.Fatal("got no peak of the other process")
	}
	peak, err := strconv.ParseInt(string(match[1]), 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return peak << 10
}

func cloneAll(t *testing.T, url string) {
	t.Helper()
	bound, err := strconv.ParseInt(os.Getenv(clonesMemory), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	git, err := gogit.New(gogit.Config{
		Dir: t.TempDir(), Memory: memory.NewBudget(bound), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	var group errgroup.Group
	for i := range clones {
		group.Go(func() error {
			uid := "uid-" + strconv.Itoa(i)
			_, err := git.Fetch(t.Context(), mirror.FetchParams{
				Definition: mirror.Definition{Name: uid, UID: uid, Definition: upstream.Definition{URL: url}}, Epoch: 1, Guard: func() error { return nil },
			})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(os.Getenv(clonesReport), status, 0o600); err != nil {
		t.Fatal(err)
	}
}

// serveLarge serves a repository with that many files and commits, and returns the number of its
// objects.
func serveLarge(tb testing.TB, files, commits int) (url string, objects int) {
	tb.Helper()
	repo := gittest.New(tb).Repo(tb, "large")
	cmd := exec.CommandContext(tb.Context(), "git", "--git-dir="+repo.Dir(), "fast-import", "--quiet", "--done")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	history := bufio.NewWriter(stdin)
	writeHistory(history, files, commits)
	if err := history.Flush(); err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		tb.Fatal(err)
	}
	repo.Git(tb, "repack", "-adfq")
	_, line, _ := strings.Cut(repo.Git(tb, "count-objects", "-v"), "in-pack: ")
	if _, err := fmt.Sscan(line, &objects); err != nil {
		tb.Fatal(err)
	}
	return repo.URL(), objects
}

// writeHistory writes manifests, of which each commit changes three.
func writeHistory(w io.Writer, files, commits int) {
	random := rand.New(rand.NewPCG(5, 6))
	for c := range commits {
		fmt.Fprintf(w, "commit refs/heads/main\ncommitter A <a@example.com> %d +0000\ndata 4\nnext\n", 1_700_000_000+60*c)
		changed := []int{random.IntN(files), random.IntN(files), random.IntN(files)}
		if c == 0 {
			changed = random.Perm(files)
		}
		for _, f := range changed {
			body := manifest(f, c)
			fmt.Fprintf(w, "M 100644 inline apps/team-%d/app-%d/manifest-%d.yaml\ndata %d\n%s\n", f%23, f%211, f, len(body), body)
		}
	}
	_, _ = io.WriteString(w, "done\n") // an error comes again from Flush
}
