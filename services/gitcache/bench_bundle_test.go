// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/internal/contract/cas/casdisk"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/selection"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot"
)

// BenchmarkBundleBuild builds the bundle of a folder that the store does not hold: from the
// mirror's packs to a verified, durable file. The peer reads the same mirror: git archive piped
// into zstd -3, into a file that is not synced or read back.
func BenchmarkBundleBuild(b *testing.B) {
	for _, files := range []int{100, 2_000, 10_000} {
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			repo := gittest.New(b).Repo(b, "demo")
			history{files: files, commits: 200}.generate(b, repo)
			dir, commit := "", ""
			for name, open := range backends {
				dir = b.TempDir()
				git := open(b, dir)
				commit = clone(b, git, repo, mirror.Content{}).Head
				b.Run(name, func(b *testing.B) { benchBuild(b, git, commit) })
			}
			b.Run("peer=git-archive-zstd", func(b *testing.B) { benchArchive(b, mirrorDir(b, dir), commit) })
		})
	}
}

func benchBuild(b *testing.B, git mirror.Backend, commit string) {
	store, err := casdisk.Open(casdisk.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	builder, err := snapshot.NewBuilder(snapshot.Params{
		Mirrors: git, Store: store, Index: snapshot.NewIndex(), TempDir: b.TempDir(), Logger: slog.New(slog.DiscardHandler),
		Tracer: tracenoop.NewTracerProvider().Tracer(""), Meter: metricnoop.NewMeterProvider().Meter(""),
	})
	if err != nil {
		b.Fatal(err)
	}
	selected, err := selection.New(selection.Spec{Path: "apps"})
	if err != nil {
		b.Fatal(err)
	}
	folder := snapshot.Folder{UID: "uid", Commit: commit, Selection: selected}
	s, err := builder.Resolve(b.Context(), folder)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	before := ownTime(b)
	for b.Loop() {
		if err := store.Delete(b.Context(), s.Digest); err != nil {
			b.Fatal(err)
		}
		blob, err := builder.Open(b.Context(), s.Digest, folder)
		if err != nil {
			b.Fatal(err)
		}
		_ = blob.Close()
	}
	reportTime(b, ownTime(b)-before)
	b.ReportMetric(float64(s.StoredSize), "stored-B")
}

func benchArchive(b *testing.B, gitDir, commit string) {
	out := filepath.Join(b.TempDir(), "archive.tar.zst")
	var spent time.Duration
	for b.Loop() {
		archive := exec.CommandContext(b.Context(), "git", "--git-dir="+gitDir, "archive", "--format=tar", commit+":apps")
		tar, err := archive.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		compress := exec.CommandContext(b.Context(), "zstd", "-3", "-q", "-f", "-o", out)
		compress.Stdin, compress.Stderr = tar, os.Stderr
		archive.Stderr = os.Stderr
		run(b, compress.Start, archive.Run, compress.Wait)
		for _, process := range []*exec.Cmd{archive, compress} {
			spent += process.ProcessState.UserTime() + process.ProcessState.SystemTime()
		}
	}
	reportTime(b, spent)
	info, err := os.Stat(out)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size()), "stored-B")
}

// ownTime is how long processors have worked for this process and its ended children.
func ownTime(b *testing.B) time.Duration {
	b.Helper()
	var spent int64
	for _, whose := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if err := syscall.Getrusage(whose, &usage); err != nil {
			b.Fatal(err)
		}
		spent += usage.Utime.Nano() + usage.Stime.Nano()
	}
	return time.Duration(spent)
}

// reportTime reports processors' time, which tells more than the clock's where others use the
// machine too.
func reportTime(b *testing.B, spent time.Duration) {
	b.Helper()
	b.ReportMetric(float64(spent.Microseconds())/1e3/float64(b.N), "cpu-ms/op")
}

func run(b *testing.B, steps ...func() error) {
	b.Helper()
	for _, step := range steps {
		if err := step(); err != nil && err != io.EOF { //nolint:errorlint // never wrapped
			b.Fatal(err)
		}
	}
}

// mirrorDir returns the bare repository that a mirror is.
func mirrorDir(b *testing.B, dir string) string {
	b.Helper()
	generations, err := filepath.Glob(filepath.Join(dir, "uid", "gen-*"))
	if err != nil || len(generations) != 1 {
		b.Fatalf("got generations %v (%v), want one", generations, err)
	}
	return generations[0]
}
