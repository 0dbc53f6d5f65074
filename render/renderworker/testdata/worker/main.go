// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command worker is only a render worker. Tests under the race detector build it without the
// detector, because a program with the detector needs more memory than a worker may use.
package main

import (
	"os"

	"github.com/leatdev/leat/render/renderworker"
)

func main() { renderworker.Serve(os.Args[1:]) }
