// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Clock prints what time it is.
package main

import (
	"os"
	"time"
)

func main() { _, _ = os.Stdout.WriteString(time.Now().Format(time.RFC3339)) }
