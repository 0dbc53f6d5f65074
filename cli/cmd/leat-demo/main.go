// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command leat-demo records what README shows: it starts a real leat up in a folder of its own, runs
// the commands of the demo, and writes what they printed as an asciicast and as an animated
// picture. The programs' lines are unchanged; pauses are cut, or made long enough to read.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/leatdev/leat/cli/internal/screencast"
)

// demo lists the commands that a person types after leat up.
var demo = []string{
	"leat get services",
	"git clone --quiet http://127.0.0.1:8703/demo.git && cd demo",
	"sed -i 's/replicas: 2/replicas: 3/' deploy/deployment.yaml",
	"git commit --quiet --all --message 'Three replicas' && git push --quiet",
	"leat sync service/demo --wait",
	"leat history service/demo",
	"leat kubeconfig demo --file kubeconfig",
	"kubectl --kubeconfig kubeconfig --namespace demo get deployments",
	"leat status",
	"leat audit --since 1h | head -4",
}

func main() {
	leat := flag.String("leat", ".bin/leat", "the program")
	out := flag.String("out", "docs/start", "folder of demo.cast and demo.svg")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *leat, *out); err != nil {
		fmt.Fprintln(os.Stderr, "leat-demo:", err)
		os.Exit(1)
	}
}

// run records the demo in a folder that it removes, and writes both files.
func run(ctx context.Context, leat, out string) error {
	source, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the checkout: %w", err)
	}
	if leat, err = filepath.Abs(leat); err != nil {
		return fmt.Errorf("find leat: %w", err)
	}
	folder, err := os.MkdirTemp("", "leat-demo-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer os.RemoveAll(folder)
	r := recorder{began: time.Now(), folder: folder}
	if err := r.play(ctx, leat, source); err != nil {
		return err
	}
	recording := screencast.Recording{Title: "leat up, a push, and kubectl through the tunnel", Lines: r.lines}.
		Paced(1500*time.Millisecond, 1200*time.Millisecond)
	return errors.Join(
		write(filepath.Join(out, "demo.cast"), recording.WriteCast),
		write(filepath.Join(out, "demo.svg"), recording.WriteSVG),
	)
}

// write makes a file of what to writes.
func write(path string, to func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	return errors.Join(to(file), file.Close())
}
