// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package childproc

import (
	"errors"
	"os/exec"
)

func isolate(*exec.Cmd) {}

func guard(int) (release func(), err error) { return nil, errors.ErrUnsupported }
