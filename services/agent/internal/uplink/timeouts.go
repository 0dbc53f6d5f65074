// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import "time"

const (
	// dialTimeout bounds connecting to a server, TLS included.
	dialTimeout = 10 * time.Second
	// answerTimeout is longer than an API server's own limit for a request.
	answerTimeout = 2 * time.Minute
	// stallTimeout is longer than any pause of a reader that intends to continue.
	stallTimeout = 2 * time.Minute
)
