// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports from first up to ephemeral, where Linux begins to choose automatically. A port that the
// kernel chose might go to any outgoing connection before the component listens on it.
const (
	first     = 10240
	ephemeral = 32768
)

// freePort returns want if it is free, or any free port if want is 0.
func freePort(ctx context.Context, want int) (port int, err error) {
	const tries = 100
	for range tries {
		port = cmp.Or(want, first+rand.IntN(ephemeral-first))
		var listener net.Listener
		listener, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
		if want != 0 {
			break
		}
	}
	return 0, fmt.Errorf("find free port: %w", err)
}
