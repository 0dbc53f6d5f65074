// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command leat-dashboards writes the dashboards for Grafana and the rules for Prometheus; see package
// observability. It runs at the root of the checkout.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/leatdev/leat/test/observability"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "leat-dashboards:", err)
		os.Exit(1)
	}
}

func run(top string) error {
	files, err := observability.Files()
	if err != nil {
		return err
	}
	for name, content := range files {
		target := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
