// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package auditfile_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/auditfile"
)

func open(tb testing.TB, params auditfile.Params) *auditfile.File {
	tb.Helper()
	file, err := auditfile.Open(params)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = file.Close() })
	return file
}

func write(tb testing.TB, file *auditfile.File, text string) {
	tb.Helper()
	if n, err := file.Write([]byte(text)); err != nil || n != len(text) {
		tb.Fatalf("Write: got %d, %v", n, err)
	}
}

// contents returns the texts of all files, the oldest first.
func contents(tb testing.TB, dir string) []string {
	tb.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "audit*.log"))
	if err != nil {
		tb.Fatal(err)
	}
	var texts []string
	for _, name := range names { // "audit-…" sorts before "audit.log"
		text, err := os.ReadFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

func TestExchangeBySize(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := open(t, auditfile.Params{Path: filepath.Join(dir, "new", "audit.log"), MaxSize: 10, Sync: true})
	for _, text := range []string{"1234\n", "678\n", "too much for one\n", "5\n"} {
		write(t, file, text)
	}
	want := []string{"1234\n678\n", "too much for one\n", "5\n"}
	if got := contents(t, filepath.Join(dir, "new")); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	info, err := os.Stat(filepath.Join(dir, "new", "audit.log"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want a file that only its owner reads", info, err)
	}
}

func TestExchangeByAge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		file := open(t, auditfile.Params{Path: filepath.Join(dir, "audit.log"), MaxAge: time.Hour})
		write(t, file, "1\n")
		<-time.After(59 * time.Minute)
		write(t, file, "2\n")
		<-time.After(time.Minute)
		write(t, file, "3\n")
	})
	if got := contents(t, dir); fmt.Sprint(got) != "[1\n2\n 3\n]" {
		t.Errorf("got %q", got)
	}
}

func TestOldFilesAreDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := filepath.Join(dir, "audit-of-somebody-else.log")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file := open(t, auditfile.Params{Path: filepath.Join(dir, "audit.log"), MaxSize: 1, Keep: 2})
	for i := range 9 {
		write(t, file, fmt.Sprintf("%d\n", i))
	}
	if err := os.Remove(other); err != nil {
		t.Errorf("a file that is not ours: %v", err)
	}
	if got := contents(t, dir); fmt.Sprint(got) != "[6\n 7\n 8\n]" {
		t.Errorf("got %q, want the last two and the current one", got)
	}
	byAge := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		file := open(t, auditfile.Params{Path: filepath.Join(byAge, "audit.log"), MaxSize: 1, KeepFor: 24 * time.Hour})
		for i := range 9 {
			write(t, file, fmt.Sprintf("%d\n", i))
			<-time.After(12 * time.Hour)
		}
	})
	if got := contents(t, byAge); fmt.Sprint(got) != "[5\n 6\n 7\n 8\n]" {
		t.Errorf("got %q, want those of a day", got)
	}
}

// TestSecHistoryIsNotRotatedAway fills many files within seconds: the files of the last day stay
// regardless of their number, and are deleted after that.
func TestSecHistoryIsNotRotatedAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file := open(t, auditfile.Params{Path: filepath.Join(dir, "audit.log"), MaxSize: 10, Keep: 3, KeepAtLeast: 24 * time.Hour})
		write(t, file, "evidence\n")
		for range 20 {
			write(t, file, "noise...\n")
		}
		if got := contents(t, dir); len(got) != 21 || got[0] != "evidence\n" {
			t.Errorf("got %d files, the oldest %q, want all 21", len(got), got[0])
		}
		<-time.After(25 * time.Hour)
		write(t, file, "noise...\n")
		if got := contents(t, dir); len(got) != 4 {
			t.Errorf("got %d files a day later, want 3 old ones and the one that is written", len(got))
		}
	})
}

func TestRestartGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	if err := os.WriteFile(path, []byte("whole\ntorn"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := open(t, auditfile.Params{Path: path})
	write(t, file, "next\n")
	if got := contents(t, dir); fmt.Sprint(got) != "[whole\ntorn\nnext\n]" {
		t.Errorf("got %q", got)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write([]byte("late\n")); err == nil {
		t.Error("a closed file took a record")
	}
}

func TestFolderThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := auditfile.Open(auditfile.Params{Path: filepath.Join(file, "audit.log")}); err == nil {
		t.Error("got no error for a folder that is a file")
	}
	if _, err := auditfile.Open(auditfile.Params{Path: t.TempDir()}); err == nil {
		t.Error("got no error for a file that is a folder")
	}
}

// records reads the files' lines.
func records(tb testing.TB, dir string) (decisions, outcomes map[string]int) {
	tb.Helper()
	decisions, outcomes = map[string]int{}, map[string]int{}
	for _, text := range contents(tb, dir) {
		for line := range strings.Lines(text) {
			var record struct{ Phase, ID string }
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				if strings.HasSuffix(line, "\n") {
					tb.Errorf("line %q: %v", line, err)
				}
				continue // the process died here
			}
			if record.Phase == "decision" {
				decisions[record.ID]++
			} else {
				outcomes[record.ID]++
			}
		}
	}
	return decisions, outcomes
}

func newQueue(tb testing.TB, file *auditfile.File) *audit.Queue {
	tb.Helper()
	queue, err := audit.NewQueue(audit.QueueParams{
		Name: "file", Output: audit.NewLog(file), Logger: slog.New(slog.DiscardHandler), Meter: noop.Meter{},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return queue
}

func TestNoRecordIsLostByExchanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	queue := newQueue(t, open(t, auditfile.Params{Path: filepath.Join(dir, "audit.log"), MaxSize: 20 << 10}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- queue.Run(ctx) }()
	var group sync.WaitGroup
	for i := range 32 {
		group.Go(func() {
			for j := range 50 {
				trail := audit.Begin(queue, audit.Request{ID: fmt.Sprintf("%d/%d", i, j)})
				if err := trail.Decide(ctx, audit.Decision{Allowed: true}); err != nil {
					t.Error(err)
				}
				if err := trail.End(ctx, audit.Result{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := len(contents(t, dir)); got < 10 {
		t.Errorf("got %d files, want many", got)
	}
	decisions, outcomes := records(t, dir)
	if len(decisions) != 32*50 || len(outcomes) != 32*50 {
		t.Errorf("got %d decisions and %d outcomes, want %d", len(decisions), len(outcomes), 32*50)
	}
	for id, n := range decisions {
		if n != 1 || outcomes[id] != 1 {
			t.Errorf("%s: got %d decisions and %d outcomes, want one each", id, n, outcomes[id])
		}
	}
}

// TestKilledProcessLosesOutcomesOnly kills a process without warning while it carries requests out.
// Each request whose decision was taken is on record.
func TestKilledProcessLosesOutcomesOnly(t *testing.T) {
	t.Parallel()
	if dir := flag.Arg(0); dir != "" { // this is the child
		carryOut(t, dir)
		return
	}
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledProcessLosesOutcomesOnly$", dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var carriedOut []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		id, ok := strings.CutPrefix(lines.Text(), "carried out ")
		if !ok {
			continue
		}
		if carriedOut = append(carriedOut, id); len(carriedOut) == 2000 {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = child.Wait() // it was killed
	if len(carriedOut) < 2000 {
		t.Fatalf("got %d requests, want the child to run until it is killed", len(carriedOut))
	}
	decisions, outcomes := records(t, dir)
	for _, id := range carriedOut {
		if decisions[id] != 1 {
			t.Errorf("%s was carried out; got %d decisions on record, want one", id, decisions[id])
		}
	}
	for id := range outcomes {
		if decisions[id] != 1 || outcomes[id] != 1 {
			t.Errorf("%s: got %d decisions and %d outcomes", id, decisions[id], outcomes[id])
		}
	}
}

// carryOut is the child: it prints the requests that it carries out, after their decision is
// recorded.
func carryOut(tb testing.TB, dir string) {
	tb.Helper()
	queue := newQueue(tb, open(tb, auditfile.Params{Path: filepath.Join(dir, "audit.log"), MaxSize: 100 << 10}))
	go func() { _ = queue.Run(tb.Context()) }()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := 0; ; j++ {
				id := fmt.Sprintf("%d/%d", i, j)
				trail := audit.Begin(queue, audit.Request{ID: id})
				if err := trail.Decide(tb.Context(), audit.Decision{Allowed: true}); err != nil {
					return
				}
				if _, err := fmt.Fprintln(os.Stdout, "carried out "+id); err != nil {
					return
				}
				_ = trail.End(tb.Context(), audit.Result{})
			}
		})
	}
	group.Wait()
}
