// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package localkube

import "errors"

var (
	errLocked      = errors.New("locked by another process")
	errUnsupported = errors.New("a local control plane needs Linux or macOS: use your own cluster with --kubeconfig")
)

func tryLock(string) (unlock func(), err error) { return nil, errUnsupported }
