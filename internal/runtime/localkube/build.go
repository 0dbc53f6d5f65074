// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/kit/durable"
)

// ErrNoGoTool means that something has to be built and there is no go command.
var ErrNoGoTool = errors.New("the go command was not found")

// Build returns the binaries pinned by SourceDir. It compiles the ones missing in CacheDir, which
// takes minutes the first time. After that it takes a millisecond and needs no go command. Any
// number of processes may build into one cache: one compiles and the others wait for it.
func Build(ctx context.Context, p BuildParams) (Binaries, error) {
	b, err := newBuilder(p)
	if err != nil {
		return Binaries{}, err
	}
	if !b.complete() {
		if err := b.findGo(); err != nil {
			return Binaries{}, err
		}
		if err := b.buildMissing(ctx); err != nil {
			return Binaries{}, err
		}
	}
	b.remember()
	return b.binaries, nil
}

// latestFile is in the cache folder, and has the paths of the files that Build made last.
const latestFile = "latest.json"

// remember stores what was built for Built, beside what was built before. Without a cache that can
// be written, Built finds nothing outside of a checkout, but the build has not failed.
func (b *builder) remember() {
	path := filepath.Join(b.cacheDir, latestFile)
	before, _ := readBinaries(path) // empty at the first build
	last := before
	for _, t := range b.targets {
		if place := last.Path(t.name); place != nil {
			*place = t.path
		}
	}
	if last != before {
		_ = durable.WriteJSON(path, latestFile+"-*", last)
	}
}

// Built returns the files that earlier builds left in the cache folder. The paths of others are
// empty. In a checkout, which p.SourceDir names, these are the files that Build would return;
// without one, the files that Build made last. It needs no go command.
func Built(p BuildParams) (Binaries, error) {
	cacheDir, err := cacheFolder(p.CacheDir)
	if err != nil {
		return Binaries{}, err
	}
	var found Binaries
	planned := targets(p, &found)
	if p.SourceDir != "" {
		if planned, err = plan(p, p.SourceDir, cacheDir, &found); err != nil {
			return Binaries{}, err
		}
	} else {
		found, _ = readBinaries(filepath.Join(cacheDir, latestFile)) // empty before the first build
	}
	for _, t := range planned {
		if t.path = *t.place; !t.built() {
			*t.place = ""
		}
	}
	return found, nil
}

func readBinaries(path string) (b Binaries, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Binaries{}, err
	}
	return b, json.Unmarshal(text, &b)
}

// cacheFolder returns the absolute path of a cache folder.
func cacheFolder(dir string) (string, error) {
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find cache folder: %w", err)
		}
		dir = filepath.Join(user, "leat", "kube")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find cache folder: %w", err)
	}
	return dir, nil
}

type builder struct {
	cacheDir  string
	goCommand string
	progress  func(string)
	targets   []target
	binaries  Binaries // where the targets are once they are built
}

func newBuilder(p BuildParams) (*builder, error) {
	b := &builder{goCommand: cmp.Or(p.GoCommand, "go"), progress: p.Progress}
	if b.progress == nil {
		b.progress = func(string) {}
	}
	var err error
	if b.cacheDir, err = cacheFolder(p.CacheDir); err != nil {
		return nil, err
	}
	source := p.SourceDir
	if source == "" {
		if source, err = FindSource("."); err != nil {
			return nil, err
		}
	}
	b.targets, err = plan(p, source, b.cacheDir, &b.binaries)
	return b, err
}

func (b *builder) complete() bool {
	return !slices.ContainsFunc(b.targets, func(t target) bool { return !t.built() })
}

func (b *builder) findGo() error {
	path, err := exec.LookPath(b.goCommand)
	if err != nil {
		return fmt.Errorf("build control plane: %w: install Go from https://go.dev/dl, or use your own cluster with --kubeconfig", ErrNoGoTool)
	}
	b.goCommand = path
	return nil
}

func (b *builder) buildMissing(ctx context.Context) error {
	if err := os.MkdirAll(b.cacheDir, 0o755); err != nil {
		return fmt.Errorf("make cache folder: %w", err)
	}
	held, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	b.sweep()
	for i, t := range b.targets {
		if t.built() {
			continue // before, or by the other process
		}
		if err := b.build(ctx, i, t); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) lock(ctx context.Context) (io.Closer, error) {
	path := filepath.Join(b.cacheDir, "lock")
	for told := false; ; told = true {
		held, err := lock(path)
		if !errors.Is(err, durable.ErrLocked) {
			return held, err
		}
		if !told {
			b.progress("waiting for another process that builds the control plane")
		}
		if err := sleep(ctx, 500*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait for another build: %w", err)
		}
	}
}

// workPrefix marks folders of builds under way.
const workPrefix = "building-"

// sweep removes what killed builds left behind. Call it with the lock held.
func (b *builder) sweep() {
	stale, _ := filepath.Glob(filepath.Join(b.cacheDir, workPrefix+"*"))
	for _, dir := range stale {
		_ = os.RemoveAll(dir) // a leftover costs disk space and nothing else
	}
}

// build makes one target next to its place in the cache and then moves it there.
func (b *builder) build(ctx context.Context, i int, t target) error {
	work, err := os.MkdirTemp(b.cacheDir, workPrefix)
	if err != nil {
		return fmt.Errorf("build %s: %w", t.name, err)
	}
	defer func() { _ = os.RemoveAll(work) }()

	begin := time.Now()
	b.progress(fmt.Sprintf("building %s %s (%d of %d)%s", t.name, t.pin.version, i+1, len(b.targets), estimate(t.cold)))
	out := filepath.Join(work, t.name)
	if err := b.withHeartbeat(t, begin, func() error { return b.produce(ctx, t, out) }); err != nil {
		return fmt.Errorf("build %s %s: %w", t.name, t.pin.version, err)
	}
	if err := os.MkdirAll(filepath.Dir(t.path), 0o755); err != nil {
		return fmt.Errorf("build %s: %w", t.name, err)
	}
	if err := os.Rename(out, t.path); err != nil {
		return fmt.Errorf("build %s: %w", t.name, err)
	}
	b.progress(fmt.Sprintf("built %s in %s", t.name, time.Since(begin).Round(100*time.Millisecond)))
	return nil
}

// estimate returns the end of a progress line: how long the build takes the first time.
func estimate(cold time.Duration) string {
	wall := cold / time.Duration(min(runtime.NumCPU(), 8)) // beyond 8 the linker, which is sequential, dominates
	switch {
	case wall < 10*time.Second:
		return ""
	case wall < time.Minute:
		return fmt.Sprintf(", the first time about %d seconds", int(wall.Round(10*time.Second).Seconds()))
	default:
		return fmt.Sprintf(", the first time about %d min", int((wall + 30*time.Second).Minutes()))
	}
}

// withHeartbeat reports every half minute that f is still running.
func (b *builder) withHeartbeat(t target, begin time.Time, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	tick := time.NewTicker(30 * time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			b.progress(fmt.Sprintf("still building %s (%s)", t.name, time.Since(begin).Round(time.Second)))
		}
	}
}

// produce compiles a target.
func (b *builder) produce(ctx context.Context, t target, out string) error {
	return b.runGo(ctx, t.pin.dir, "build", "-buildvcs=false", "-ldflags", t.linkFlags(), "-o", out, t.source)
}

// runGo runs the go command in dir.
func (b *builder) runGo(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, b.goCommand, args...)
	cmd.Dir = dir
	// These modules are not in go.work. GOFLAGS that users set for their own code (-race,
	// -mod=vendor) would build something else here.
	cmd.Env = append(cmd.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that go removes its temporary files
	cmd.WaitDelay = 10 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("go %s: %w\n%s", args[0], err, lastLines(stderr.String(), 20))
	}
	return nil
}
