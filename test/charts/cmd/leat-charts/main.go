// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command leat-charts writes the files that follow from the Helm charts; see package charts. It runs
// at the root of the checkout.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/leatdev/leat/test/charts"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "leat-charts:", err)
		os.Exit(1)
	}
}

func run(top string) error {
	files, err := charts.Files(top)
	if err != nil {
		return err
	}
	for name, content := range files {
		target := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
