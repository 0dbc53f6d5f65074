// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command leat-runs reports what a run of the tests did; see package runs.
//
//	leat-runs NAME.events.json…   prints the report, and writes NAME.flaky.txt beside each file
//	leat-runs -slowest N FILE…    prints the N packages with the most time instead
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/leatdev/leat/test/runs"
)

// module is the prefix of the packages' import paths.
const module = "github.com/leatdev/leat"

func main() {
	slowest := flag.Int("slowest", 0, "print the N packages with the most time on the clock")
	flag.Parse()
	for _, path := range flag.Args() {
		if err := show(os.Stdout, path, *slowest); err != nil {
			fmt.Fprintln(os.Stderr, "leat-runs:", err)
			os.Exit(1)
		}
	}
}

func show(out io.Writer, path string, slowest int) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // read only
	report, err := runs.Read(file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if slowest > 0 {
		for _, p := range report.Packages[:min(slowest, len(report.Packages))] {
			fmt.Fprintf(out, "%8s  %s\n", p.Time.Round(time.Millisecond), p.Path)
		}
		return nil
	}
	fmt.Fprintf(out, "\n%d tests, %d of them run again\n", report.Tests, report.Again)
	for _, failed := range report.Failed {
		fmt.Fprintf(out, "FAILED  %s\n        run it again: %s\n", failed, failed.Again(module))
	}
	var flaky strings.Builder
	for _, f := range report.Flaky {
		fmt.Fprintf(&flaky, "FLAKY   %s (failed %d of %d)\n        %s COUNT=50\n", f, f.Failures, f.Runs, f.Again(module))
	}
	fmt.Fprint(out, flaky.String())
	return os.WriteFile(strings.TrimSuffix(path, ".events.json")+".flaky.txt", []byte(flaky.String()), 0o644)
}
