// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package durable

import (
	"errors"
	"io"
)

// Lock is described in lock_unix.go.
func Lock(string) (io.Closer, error) { return nil, errors.ErrUnsupported }
