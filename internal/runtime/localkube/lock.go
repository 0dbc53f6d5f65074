// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/leatdev/leat/internal/kit/durable"
)

// lock takes the lock on a file.
func lock(path string) (io.Closer, error) {
	held, err := durable.Lock(path)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, errors.New("a local control plane needs Linux or macOS: use your own cluster with --kubeconfig")
	}
	return held, err
}

// sleep blocks for d. If ctx ends first, it returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
