// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package turns

// SlowFor is how long a service counts as slow.
const SlowFor = slowFor

// Next returns what a queue of that many turns does next, as text: "begin" or "stop", or "rest", and
// the place of the render. Each letter of holding is a render that holds a turn: h is not slow, n has
// become slow, s was slow when it began, x is stopped. Each letter of waiting is one that waits: h is
// not slow, s is.
func Next(turns int, holding, waiting string) (string, int) {
	var holders []holder
	for _, letter := range holding {
		holders = append(holders, holder{isSlow: letter != 'h', wasSlow: letter == 's', isStopped: letter == 'x'})
	}
	var isSlow []bool
	for _, letter := range waiting {
		isSlow = append(isSlow, letter == 's')
	}
	do, i := next(turns, holders, isSlow)
	return map[action]string{rest: "rest", begin: "begin", stop: "stop"}[do], i
}
