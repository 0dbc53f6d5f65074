// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package renderworker

// raceDetector reports whether the program has the race detector, with which it needs more memory
// than a worker may use.
const raceDetector = true
