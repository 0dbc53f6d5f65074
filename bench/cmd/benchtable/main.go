// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command benchtable turns the output of "go test -bench" into the tables of RESULTS.md: one for
// each benchmark, with the median of repeated runs in each cell, and for "leat" the ratio to the
// peer that was measured beside it.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	results, err := read(in)
	if err != nil {
		return err
	}
	return write(out, results)
}
