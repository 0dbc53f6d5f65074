// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/leatdev/leat/internal/testkit/workermain"
)

func TestMain(m *testing.M) { workermain.Run(m, main) }

func TestMainCanBeARenderWorker(t *testing.T) {
	t.Parallel()
	workermain.Check(t)
}
