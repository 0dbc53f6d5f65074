// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command leat-runs reports what a run of the tests did; see package runs.
//
//	leat-runs NAME.events.json…   prints the report, and writes NAME.flaky.txt beside each file
//	leat-runs -slowest N FILE…    prints the N packages with the most time instead
//	leat-runs -record PAGE -commit COMMIT FILE…  writes into PAGE when each test passed, and at which COMMIT, instead
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/leatdev/leat/test/runs"
)

// module is the prefix of the packages' import paths.
const module = "github.com/leatdev/leat"

func main() {
	var options options
	flag.IntVar(&options.slowest, "slowest", 0, "print the N packages with the most time on the clock")
	flag.StringVar(&options.page, "record", "", "the `page` that says when each test passed")
	flag.StringVar(&options.commit, "commit", "", "the `commit` that ran, for -record")
	flag.Parse()
	for _, path := range flag.Args() {
		if err := options.show(os.Stdout, path); err != nil {
			fmt.Fprintln(os.Stderr, "leat-runs:", err)
			os.Exit(1)
		}
	}
}

type options struct {
	slowest      int
	page, commit string
}

func (o options) show(out io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // read only
	report, err := runs.Read(file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case o.slowest > 0:
		for _, p := range report.Packages[:min(o.slowest, len(report.Packages))] {
			fmt.Fprintf(out, "%8s  %s\n", p.Time.Round(time.Millisecond), p.Path)
		}
		return nil
	case o.page != "":
		return o.record(report)
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

// record adds the report to the page. A page that does not exist is made.
func (o options) record(report runs.Report) error {
	page, err := os.ReadFile(o.page)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	record, err := runs.ParseRecord(string(page))
	if err != nil {
		return fmt.Errorf("%s: %w", o.page, err)
	}
	record.Add(report, module, time.Now().UTC().Format(time.DateOnly), o.commit)
	return os.WriteFile(o.page, []byte(record.String()), 0o644)
}
