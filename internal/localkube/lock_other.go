// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package localkube

import "errors"

var (
	errLocked      = errors.New("locked by another process")
	errUnsupported = errors.New("a local control plane needs Linux or macOS: use a cluster of yours with --kubeconfig")
)

func tryLock(string) (unlock func(), err error) { return nil, errUnsupported }
