// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package renderworker

// raceDetector tells that the program has more memory of its own than a worker may use.
const raceDetector = true
