// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command leat-sequential reads `go list -json work` from standard input and prints the packages with
// tests that package sequential finds. With -raced it prints the other ones.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/leatdev/leat/test/runs/sequential"
)

func main() {
	prints := flag.Bool("raced", false, "print the packages with tests that are not sequential")
	flag.Parse()
	alone, raced, err := sequential.Find(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "leat-sequential:", err)
		os.Exit(1)
	}
	if *prints {
		alone = raced
	}
	for _, path := range alone {
		fmt.Fprintln(os.Stdout, path)
	}
}
