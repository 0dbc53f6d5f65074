// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command leat-docs generates docs/reference/config.md, docs/reference/errors.md and
// docs/reference/metrics.md from the code, so that they cannot drift.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/leatdev/leat/cli/internal/reference"
)

func main() {
	out := flag.String("out", "../docs/reference", "folder of the pages")
	source := flag.String("source", "..", "folder of the source")
	flag.Parse()
	if err := reference.Write(*out, *source); err != nil {
		fmt.Fprintln(os.Stderr, "leat-docs:", err)
		os.Exit(1)
	}
}
