// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command worker can be nothing but a render worker. Tests that run under the race detector build it without that: a program with the
// detector in it has more memory of its own than a worker may use.
package main

import (
	"os"

	"github.com/leatdev/leat/services/agent/internal/renderworker"
)

func main() { renderworker.Serve(os.Args[1:]) }
